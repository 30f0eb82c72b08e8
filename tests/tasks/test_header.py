import pytest

from kernelblaster.tasks.header import SPECIAL_FUNCTIONS, left_out

KERNEL = "__global__ void kernel(float* out) { out[0] = expf(out[0]); }\n"


@pytest.mark.parametrize(
    "before",
    [
        "",
        "#include <math.h>\n",
        "#include <cuda_fp16.h>\n# include <cooperative_groups.h>\n",
        "#include <cmath>\n",
    ],
)
def test_special_functions_are_left_out_where_nothing_can_name_them(before: str) -> None:
    assert left_out(before + KERNEL) == [SPECIAL_FUNCTIONS]


@pytest.mark.parametrize(
    "before",
    [
        "int least(int a, int b) { return std::min(a, b); }\n",
        "using namespace std;\n",
        "#define PASTE(a, b) a##b\n",
        "#include <algorithm>\n",
        "#include <cub/block/block_reduce.cuh>\n",
        '#include "own.h"\n',
        "#include HEADER\n",
    ],
)
def test_special_functions_stay_where_the_standard_library_may_be_used(before: str) -> None:
    assert left_out(before + KERNEL) == []
