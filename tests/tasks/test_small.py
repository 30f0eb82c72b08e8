"""The small construction of a module: which constants of its file are made smaller."""

import pytest

from kernelblaster.tasks.module_file import ModuleFile
from kernelblaster.tasks.small import find_small

GROUPS = """
import torch
import torch.nn as nn

rows, features, out_features, groups = 32768, 1024, 4096, {groups}


class Model(nn.Module):
    def __init__(self, features, out_features, groups):
        super().__init__()
        self.linear = nn.Linear(features, out_features)
        self.norm = nn.GroupNorm(groups, out_features)

    def forward(self, x):
        return self.norm(self.linear(x))


def get_inputs():
    return [torch.rand(rows, features)]


def get_init_inputs():
    return [features, out_features, groups]
"""


@pytest.mark.parametrize("groups", [64, 128])
def test_a_number_that_no_tensor_shows_stays(groups: int) -> None:
    found = find_small(ModuleFile(GROUPS.format(groups=groups), f"groups{groups}.py"), None)
    assert found is not None
    assert "groups" not in found
    assert found["out_features"] % groups == 0
    assert found["out_features"] >= 2 * groups  # several elements in each
