import pytest

from kernelblaster.records.kernel_name import source_name


@pytest.mark.parametrize(
    ("known_as", "name"),
    [
        ("_Z14softmax_kernelPfPKfll", "softmax_kernel"),
        ("_ZL4tilePf", "tile"),
        ("_ZN3abc4tileILi4EEEvPf", "tile"),
        ("_ZN45_GLOBAL__N__9cb3c208_12_candidate_cu_18ab181015max_pool_kernelEPfPKfliiii", "max_pool_kernel"),
        ("softmax_kernel(float *, long)", "softmax_kernel"),
        ("void tile<(int)4, float>(float *)", "tile"),
        ("void abc::tile<4>(float *)", "tile"),
        ("<unnamed>::max_pool_kernel(float *, const float *)", "max_pool_kernel"),
        ("void (anonymous namespace)::tile<4>(float *)", "tile"),
        ("softmax_kernel", "softmax_kernel"),
    ],
)
def test_kernels_are_known_by_their_name_in_the_source(known_as: str, name: str) -> None:
    assert source_name(known_as) == name
