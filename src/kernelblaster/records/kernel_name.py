"""Finds the name that a kernel has in the source from its mangled name or a profiler's name."""

import re

UNNAMED = ("(anonymous namespace)::", "<unnamed>::")
NESTED = re.compile(r"_ZN?[rVKL]*")
LENGTH = re.compile(r"\d+")


def source_name(known_as: str) -> str:
    """Returns the plain name that a kernel has in the source, from the mangled or demangled name `known_as`:
    `_ZN3abc4tileILi4EEvPf` and `void abc::tile<4>(float *)` both give `tile`."""
    if known_as.startswith("_Z"):
        return _last_part(known_as)
    plain = known_as.removeprefix("void ")
    for unnamed in UNNAMED:
        plain = plain.replace(unnamed, "")
    return re.split(r"[(<]", plain)[0].split("::")[-1].strip() or known_as


def _last_part(mangled: str) -> str:
    """The innermost name in a kernel's mangled C++ name: `tile` for `_ZN3abc4tileILi4EEvPf`. `mangled` has a
    namespace and follows the Itanium C++ ABI."""
    found = NESTED.match(mangled)
    assert found is not None
    position, name = found.end(), mangled
    while (length := LENGTH.match(mangled, position)) is not None:
        position = length.end() + int(length[0])
        name = mangled[length.end() : position]
    return name
