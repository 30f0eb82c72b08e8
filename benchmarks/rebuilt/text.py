"""What the files of all networks have in common."""

from rebuilt.facts import Problem, Ran

HEAD = "import math\n\nimport torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n"
TAIL = """

def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return [{arguments}]
"""


def network_file(problem: Problem, body: str, constants: dict[str, object], training: bool) -> str:
    """The task file with this body, whose Model takes the constants in order."""
    text = HEAD + "".join(f"{name} = {value!r}\n" for name, value in constants.items()) + "\n\n"
    inputs = ", ".join(f"torch.rand({', '.join(map(str, shape))})" for shape in problem.inputs)
    if not training:
        body = body.replace("        # end\n", "        self.eval()\n")
    return text + body.strip("\n") + "\n" + TAIL.format(inputs=inputs, arguments=", ".join(constants))


def convolutions(problem: Problem) -> list[Ran]:
    return [ran for ran in problem.operators if ran.name == "convolution"]
