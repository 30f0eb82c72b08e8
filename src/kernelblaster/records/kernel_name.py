"""A kernel's name as its source has it."""

import re

UNNAMED = ("(anonymous namespace)::", "<unnamed>::")
NESTED = re.compile(r"_ZN?[rVKL]*")
LENGTH = re.compile(r"\d+")


def source_name(known_as: str) -> str:
    """From what a linker or a profiler calls it: `_ZN3abc4tileILi4EEvPf` and `void abc::tile<4>(float *)`
    are both `tile`."""
    if known_as.startswith("_Z"):
        return _last_part(known_as)
    plain = known_as.removeprefix("void ")
    for unnamed in UNNAMED:
        plain = plain.replace(unnamed, "")
    return re.split(r"[(<]", plain)[0].split("::")[-1].strip() or known_as


def _last_part(mangled: str) -> str:
    """Of a name that is mangled as the C++ ABI for Itanium has it: parts, each after its length."""
    found = NESTED.match(mangled)
    assert found is not None
    place, name = found.end(), mangled
    while (length := LENGTH.match(mangled, place)) is not None:
        place = length.end() + int(length[0])
        name = mangled[length.end() : place]
    return name
