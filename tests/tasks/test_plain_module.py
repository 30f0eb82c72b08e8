"""Task files of agents are plain, or refused with the line; every known way out of them is closed."""

import pytest

from kernelblaster.errors import BadTask
from kernelblaster.tasks.catalog import find
from kernelblaster.tasks.plain_module import check_plain

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\nimport math\n"
MODEL = (
    "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "{own}    def forward(self, x):\n"
)
WAYS_OUT = {
    "import": "import os\n",
    "import from": "from subprocess import run\n",
    "import within torch": "from torch import os\n",
    "a module of torch": "x = torch.os.system('id')\n",
    "a deeper module": "import torch.utils.cpp_extension\n",
    "dunder import": "__import__('os')\n",
    "eval": "x = eval('1')\n",
    "open": "x = open('/etc/passwd')\n",
    "getattr": "x = getattr(torch, 'os')\n",
    "load": "x = torch.load('/tmp/x')\n",
    "save": "torch.save(1, '/tmp/x')\n",
    "from_file": "x = torch.from_file('/etc/passwd', False, 10)\n",
    "ops": "torch.ops.load_library('/tmp/x.so')\n",
    "classes": "x = ().__class__.__mro__\n",
    "globals of a function": "def f():\n    pass\nx = f.__globals__\n",
    "a module as a value": "t = torch\n",
    "a module's module as a value": "t = torch.nn\n",
    "an own name for an internal one": "class M(nn.Module):\n    def gi_frame(self):\n        return 1\n"
    "x = (i for i in [1]).gi_frame\n",
    "frames": "x = (i for i in [1]).gi_frame.f_back\n",
    "formats": "x = '{0.__class__}'.format(1)\n",
    "a decorator": "@torch.compile\ndef f(x):\n    return x\n",
    "a metaclass": "class M(nn.Module, metaclass=int):\n    pass\n",
    "matching": "match 1:\n    case int(real=x):\n        pass\n",
    "another meaning of a name": "nn = 1\n",
    "storage": "x = torch.ones(3).untyped_storage()\n",
    "numpy": "x = torch.ones(3).numpy().tofile('/tmp/x')\n",
    "exceptions": "try:\n    pass\nexcept Exception as e:\n    x = e\n",
    "a star": "from torch import *\n",
    "a compiler": "x = torch.compile(nn.Linear(1, 1))\n",
    "no Python": "class (:\n",
    "depth": "x = " + "(" * 5000 + ")" * 5000 + "\n",
    "length": "#" * 300_000,
}


@pytest.mark.parametrize("text", WAYS_OUT.values(), ids=WAYS_OUT)
def test_what_is_not_plain_is_refused(text: str) -> None:
    with pytest.raises(BadTask):
        check_plain(HEAD + text, "task")


def test_the_message_names_the_line_and_what_is_allowed() -> None:
    with pytest.raises(BadTask, match=r"mine, line 5: import os is not allowed.*--trust-tasks"):
        check_plain(HEAD + "import os\n", "mine")


def test_shipped_tasks_are_plain() -> None:
    for name, path in find("core"):
        check_plain(path.read_text(), name)


def test_own_attributes_and_buffers_are_allowed() -> None:
    own = "        self.register_buffer('mask', torch.ones(3))\n        self.scale = math.sqrt(2.0)\n"
    check_plain(HEAD + MODEL.format(own=own) + "        return F.relu(x * self.mask) * self.scale\n", "task")
