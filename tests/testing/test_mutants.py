"""Mutants: every kind of mistake is made, outside comments, one edit each."""

import random

import pytest

from kernelblaster.testing.mutants import KINDS, Mutant, choose, mutants_of

SOURCE = """
static const int THREADS = 128;

// if (i < n) __syncthreads();
__global__ void norm(float* out, const float* x, float eps, int64_t cols) {
    __shared__ float partial[4];
    float sum = 0, top = -INFINITY;
    for (int64_t c = threadIdx.x; c < cols; c += THREADS) sum += x[c] * x[c];
    for (int64_t c = threadIdx.x; c < cols; c += THREADS) top = fmaxf(top, x[c]);
    for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    if (cols % 4 == 0) out[0] = expf(sum * 0.5f + eps);
    else out[0] = partial[0];
}

extern "C" void launch_gpu_implementation(float* out, const float* x, double eps, int64_t rows,
                                          int64_t cols, cudaStream_t stream) {
    norm<<<unsigned((rows + 3) / 4), THREADS, 0, stream>>>(out, x, float(eps), cols);
}
"""
WANTED = [
    ("fence", "drop __syncthreads();"),
    ("index", "c < cols: <="),
    ("index", "c < cols: bound less one"),
    ("index", "c += THREADS: step plus one"),
    ("tail", "(rows + 3) / 4: rounded down"),
    ("tail", "cols: whole strides of THREADS only"),
    ("precision", "sum += x[c] * x[c]: accumulated in half"),
    ("precision", "x[c] * x[c]: factors rounded to tf32"),
    ("scalar", "0.5f 1 % larger"),
    ("scalar", "argument eps ignored: always 1e-05"),
    ("work", "cols: first half only"),
    ("work", "o = 16: half of the distance"),
    ("state", "sum = 0: not initialised"),
    ("state", "-INFINITY made 0"),
    ("state", "input x written"),
    ("sizes", "cols % 4 == 0 taken for granted"),
    ("sizes", "size cols taken for at most 2048"),
]


@pytest.fixture(scope="module")
def mutants() -> list[Mutant]:
    return mutants_of(SOURCE, {"rows": 8192, "cols": 2048}, {"eps": 1e-5})


@pytest.mark.parametrize(("kind", "what"), WANTED)
def test_the_usual_mistakes_are_made(mutants: list[Mutant], kind: str, what: str) -> None:
    assert (kind, what) in {(m.kind, m.what) for m in mutants}


def test_every_mutant_is_another_text(mutants: list[Mutant]) -> None:
    sources = [m.source for m in mutants]
    assert len(set(sources)) == len(sources) and SOURCE not in sources
    assert {m.kind for m in mutants} == set(KINDS)


def test_comments_are_left_alone(mutants: list[Mutant]) -> None:
    assert all("// if (i < n) __syncthreads();\n" in m.source for m in mutants)
    assert all(m.line != 4 for m in mutants)


def test_an_edit_is_where_its_line_says(mutants: list[Mutant]) -> None:
    (dropped,) = [m for m in mutants if m.what == "drop __syncthreads();"]
    before, after = SOURCE.splitlines(), dropped.source.splitlines()
    changed = [number for number, pair in enumerate(zip(before, after, strict=True), 1) if pair[0] != pair[1]]
    assert changed == [dropped.line]


def test_wider_accumulators_made_float_are_honest_and_not_made() -> None:
    source = SOURCE.replace("float sum = 0, top", "double sum = 0, top")
    assert not [m for m in mutants_of(source) if "double sum" not in m.source]


def test_code_that_is_not_compiled_is_left_alone() -> None:
    planted = SOURCE.replace("    __syncthreads();", "#ifdef PLANTED_ERROR\n    sum += 1;\n#endif\n    ;")
    assert all("\n    sum += 1;\n" in m.source for m in mutants_of(planted))


def test_a_choice_is_the_same_again_and_holds_every_kind(mutants: list[Mutant]) -> None:
    chosen = choose(mutants, 16, random.Random(1))
    assert chosen == choose(mutants, 16, random.Random(1)) != choose(mutants, 16, random.Random(2))
    assert len(chosen) == 16 and {m.kind for m in chosen} == set(KINDS)
    assert len(choose(mutants, 10_000, random.Random(1))) == len(mutants)
