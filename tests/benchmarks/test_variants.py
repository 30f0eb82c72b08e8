"""The variants are many, of many families, and each constant they declare can be set from outside."""

import pytest
from variants import kernel_files, read_variants

from kernelblaster.judge.sweep import tunables


def test_there_are_enough():
    found = [kernel for file in kernel_files() for kernel in read_variants(file)]
    assert len({kernel.title for kernel in found}) == len(found) >= 90
    assert len({kernel.family for kernel in found}) >= 12


@pytest.mark.parametrize("file", kernel_files(), ids=lambda file: file.stem)
def test_every_constant_has_a_default_and_is_used(file):
    source = file.read_text()
    for tunable in tunables(source):
        assert f"#ifndef {tunable.name}\n#define {tunable.name} " in source
        assert source.count(tunable.name) > 3
        assert len(set(tunable.values)) > 1


def test_a_precision_can_be_named():
    (file,) = [f for f in kernel_files() if f.stem == "matmul_tensor_cores"]
    assert {kernel.task.dtype for kernel in read_variants(file)} == {"float16"}
