"""The names of all kinds of values that verification fills a task's tensors with ("zeros", "sorted", ...),
and by which factors and special numbers some of them change values."""

from typing import Literal

Distribution = Literal[
    "written",
    "scaled",
    "large",
    "shifted",
    "far",
    "ramp",
    "spiky",
    "negated",
    "zeros",
    "equal",
    "zero-rows",
    "one-row",
    "padded",
    "one-hot",
    "beginning",
    "end",
    "sorted",
    "alternating",
    "rising",
    "level",
    "step",
    "peak",
    "mixed",
    "small-scale",
    "tiny-scale",
    "minute-scale",
    "subnormal-scale",
    "subnormals",
    "octaves",
    "low-octaves",
    "huge-scale",
    "vast-scale",
    "landmarks",
    "sparse",
    "sparse-low",
    "grid",
    "nan",
    "infinite",
    "planted-high",
    "planted-low",
]
# NaN and infinity, used where PyTorch itself handles them. The last two put large finite numbers of either
# sign into the same elements, to find the outputs that depend on them.
PLANTED: frozenset[Distribution] = frozenset({"nan", "infinite", "planted-high", "planted-low"})
OCTAVES: dict[Distribution, tuple[int, int]] = {"octaves": (-124, 20), "low-octaves": (-124, 0)}
# Numbers at which functions often change from one branch to another.
LANDMARKS = (0.0, -0.0, 0.25, -0.25, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 6.0, -6.0, 20.0, -20.0)
# Powers of two by which values are multiplied, from and to: exact until numbers become subnormal.
WIDE_SCALES: dict[Distribution, tuple[int, int]] = {
    "scaled": (2, 2),
    "large": (5, 5),
    "small-scale": (-20, -7),
    "tiny-scale": (-46, -27),
    "minute-scale": (-127, -47),
    "subnormal-scale": (-134, -128),
    "huge-scale": (6, 29),
    "vast-scale": (30, 50),  # squares of so large values can still be summed by the million
}
HALF_SCALES: dict[Distribution, tuple[int, int]] = {
    "scaled": (2, 2),
    "large": (5, 5),
    "small-scale": (-6, -3),
    "tiny-scale": (-9, -7),
    "minute-scale": (-13, -10),
    "subnormal-scale": (-19, -15),
    "huge-scale": (4, 7),
    "vast-scale": (8, 11),
}
