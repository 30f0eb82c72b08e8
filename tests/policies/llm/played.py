"""A model for tests that knows one task: its answers in each role, as a script for the loopback server."""

import json
from collections.abc import Callable
from typing import Any

from tests.models.server import Action, Says

TASK = """
import torch, torch.nn as nn
rows = 4096
cols = 2048
SMALL = {"rows": 5, "cols": 37}
class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2.0 + 1.0
def get_inputs():
    return [torch.randn(rows, cols)]
def get_init_inputs():
    return []
"""
FUSED = """__global__ void fused_kernel(float* __restrict__ out, const float* __restrict__ x, int64_t n) {
  const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) out[i] = (x[i] < 0 ? 0 : x[i]) * 2.0f + 1.0f;
}

extern "C" void launch_gpu_implementation(
    float* out, const float* x, int64_t x_0, int64_t x_1, cudaStream_t stream) {
  const int64_t n = x_0 * x_1;
  fused_kernel<<<(unsigned)((n + 255) / 256), 256, 0, stream>>>(out, x, n);
}
"""
VECTOR = [
    {
        "search": "  if (i < n) out[i] = (x[i] < 0 ? 0 : x[i]) * 2.0f + 1.0f;\n",
        "replace": "  const int64_t at = 4 * i;\n"
        "  if (at + 3 < n) {\n"
        "    float4 v = *(const float4*)(x + at);\n"
        "    v.x = (v.x < 0 ? 0 : v.x) * 2.0f + 1.0f;\n"
        "    v.y = (v.y < 0 ? 0 : v.y) * 2.0f + 1.0f;\n"
        "    v.z = (v.z < 0 ? 0 : v.z) * 2.0f + 1.0f;\n"
        "    v.w = (v.w < 0 ? 0 : v.w) * 2.0f + 1.0f;\n"
        "    *(float4*)(out + at) = v;\n"
        "  } else {\n"
        "    for (int64_t k = at; k < n; ++k) out[k] = (x[k] < 0 ? 0 : x[k]) * 2.0f + 1.0f;\n"
        "  }\n",
    },
    {"search": "(n + 255) / 256)", "replace": "(n + 1023) / 1024)"},
]
WRONG = FUSED.replace("* 2.0f + 1.0f", "* 2.0f + 1.5f")
BROKEN = FUSED.replace("x[i] < 0 ? 0", "x[i] < zero ? zero")

ROLES = {  # by the beginning of the question
    "Write a first candidate": "initial-writer",
    "Name the performance state": "state-extractor",
    "A kernel is in a performance state": "state-matcher",
    "Propose up to": "proposer",
    "Make this candidate faster: apply": "lowerer",
    "This candidate was meant": "mend",
    "Make this candidate faster, keeping": "plain",
    "A CUDA candidate passed": "soft-verifier",
    "A search for faster CUDA kernels applied techniques, each": "policy-evaluator",
    "A search for faster CUDA kernels applied techniques, and": "gap-analyst",
    "A knowledge base says": "knowledge-updater",
}
NO_CHANGE = {"applicable": False, "summary": "done already", "edits": [], "source": ""}


def prompt_of(body: dict[str, Any]) -> str:
    """The question in a call of either protocol."""
    said = [m["content"] for m in body["messages"] if m["role"] == "user"]
    text = said[0]
    return text if isinstance(text, str) else text[0]["text"]


def role_of(body: dict[str, Any]) -> str:
    text = prompt_of(body)
    return next(role for begin, role in ROLES.items() if text.startswith(begin))


def rewrite(**fields: Any) -> dict[str, Any]:
    return {"applicable": True, "summary": "as asked", "edits": [], "source": "", **fields}


def lowered(text: str) -> dict[str, Any]:
    """Fuses three kernels, then reads four elements at once."""
    if "mul_kernel" in text:
        return rewrite(source=FUSED)
    return NO_CHANGE if "float4" in text else rewrite(edits=VECTOR)


ANSWERS: dict[str, Callable[[str], dict[str, Any]]] = {
    "initial-writer": lambda text: {"summary": "one kernel", "source": FUSED},
    "state-extractor": lambda text: {
        "kernels": [
            {
                "kernel": "relu_kernel",
                "primary": "memory-bandwidth",
                "secondary": ["Many-Passes", "not a word!"],
                "description": "It moves bytes.",
            }
        ]
    },
    "state-matcher": lambda text: {"name": "memory-bandwidth", "reason": "bytes"},
    "proposer": lambda text: {
        "proposals": [
            {
                "technique": "Whole call fusion",
                "description": "One kernel for the call.",
                "predicted": 2.5,
                "reason": "three passes over memory",
            }
        ]
    },
    "lowerer": lowered,
    "mend": lambda text: rewrite(source=FUSED),
    "plain": lambda text: {"summary": "fused", "source": FUSED},
    "soft-verifier": lambda text: {"verdict": "nothing-found", "findings": []},
    "policy-evaluator": lambda text: {"worth_explaining": [0], "remark": "fusion"},
    "gap-analyst": lambda text: {
        "gaps": [{"number": 0, "cause": "bottleneck-removed", "sentence": "Fewer bytes."}]
    },
    "knowledge-updater": lambda text: {
        "notes": [{"number": 0, "note": "Fuse pointwise chains first; each pass costs a trip to memory."}]
    },
}


def plays(**instead: Callable[[str], dict[str, Any]]) -> Callable[[dict[str, Any]], Action]:
    """What the server says to each call; `instead` has other answers for some roles (`_` for `-`)."""
    answers = ANSWERS | {role.replace("_", "-"): answer for role, answer in instead.items()}

    def play(body: dict[str, Any]) -> Action:
        return Says(json.dumps(answers[role_of(body)](prompt_of(body))))

    return play
