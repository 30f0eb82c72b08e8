"""Screens a compiled candidate (a shared object) before it is loaded.

Checks what the loader would do with the file: which symbols and libraries it imports, what runs at load,
which memory is executable. A candidate that passes can be loaded by the recorder, the sandboxed process that
runs its host code. x86-64 only.

Not checked: what its host code does, which the recorder's sandbox confines; and device code.
"""

import itertools
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Section, SymbolTableSection

from kernelblaster.errors import KernelBlasterError
from kernelblaster.judge.screen_source import MOST_FINDINGS, RULES, ScreenFinding, hint, matches

_Sections = dict[str, Section]
_BINARY: dict[str, Any] = RULES["binary"]

ALLOWED_CUDA: tuple[str, ...] = tuple(_BINARY["cuda"])
"""The CUDA functions that a candidate may import: those of the recorder's stand-in."""

_PLAIN = [*_BINARY["libc"], *(base + kind for base in _BINARY["libm"] for kind in ("", "f", "l"))]
_NAMES = frozenset([*ALLOWED_CUDA, *_PLAIN, *(p for p in _BINARY["cxx"] if p[-1] != "*")])
_PATTERNS = [p for p in _BINARY["cxx"] if p[-1] == "*"]

_UNSAFE_TAGS = {
    "DT_RPATH": "library-path",
    "DT_RUNPATH": "library-path",
    "DT_AUDIT": "library-path",
    "DT_DEPAUDIT": "library-path",
    "DT_AUXILIARY": "library-path",
    "DT_FILTER": "library-path",
    "DT_SYMBOLIC": "interposition",
    "DT_TEXTREL": "executable-memory",
    "DT_PREINIT_ARRAY": "load-time-code",
}
_UNSAFE_FLAGS = 0x1 | 0x2 | 0x4  # DT_FLAGS: ORIGIN, SYMBOLIC, TEXTREL
_FUNCTION, _INDIRECT_FUNCTION = 2, 10  # symbol types
_RELATIVE, _INDIRECT_RELATIVE = 8, 37  # relocation types of x86-64
_EXECUTABLE, _WRITABLE, _EXECUTABLE_SECTION = 1, 2, 4  # flags of segments, and of sections

_REGISTRATION = "_ZL24__sti____cudaRegisterAllv"
_STREAMS = "_ZStL8__ioinit"  # the object that sets up the standard streams, of <iostream>
_IMPORTS = {".plt", ".plt.got", ".plt.sec"}
# The instructions of code that sets up an object of a library and registers its destructor: nothing is
# stored, and what is called lies at a distance of 32 bits.
_SETUP = re.compile(
    rb"""(?:\xf3\x0f\x1e\xfa             # endbr64
        | \x41?[\x50-\x5f]              # push, pop
        | [\x48\x4c][\x8d\x8b][\x05\x0d\x15\x1d\x25\x2d\x35\x3d].{4}  # an address, or what lies there
        | [\x48\x49\x4c\x4d]\x89[\xc0-\xff]  # from register to register
        | \x48\x83[\xc4\xec].          # the stack pointer
        | [\xe8\xe9].{4}                # call, jump
        | \xc3)*                        # return
    """,
    re.X | re.S,
)
_CALL = re.compile(rb"[\xe8\xe9](.{4})", re.S)


def screen_binary(path: Path) -> list[ScreenFinding]:
    """Every reason why the shared object at `path` may not be loaded; an empty list if there is none. Raises
    `KernelBlasterError` if `path` is no x86-64 ELF file; that is not the candidate's fault."""
    try:
        with path.open("rb") as stream:
            elf = ELFFile(stream)
            if elf["e_machine"] != "EM_X86_64":
                raise KernelBlasterError(f"{path}: compiled for {elf['e_machine']}, not for x86-64.")
            sections = {section.name: section for section in elf.iter_sections()}
            rules = [
                _libraries(sections),
                _symbols(sections),
                _memory(elf, sections),
                _load_time(sections),
            ]
            findings = (finding for rule in rules for finding in itertools.islice(rule, MOST_FINDINGS))
            return list(dict.fromkeys(findings))
    except ELFError as error:
        raise KernelBlasterError(f"{path}: not a readable ELF file: {error}.") from error


def _libraries(sections: _Sections) -> Iterator[ScreenFinding]:
    """Yields a finding for each needed library that is not allowed, and for library paths and other unsafe
    dynamic tags. `sections` are those of the shared object, by name."""
    dynamic = sections.get(".dynamic")
    tags: Any = dynamic.iter_tags() if isinstance(dynamic, DynamicSection) else ()
    for tag in tags:
        kind = tag.entry.d_tag
        if kind == "DT_NEEDED" and not matches(tag.needed, _BINARY["libraries"]):
            yield _finding("forbidden-library", f"It needs the library {tag.needed}, which it may not")
        elif kind in _UNSAFE_TAGS:
            yield _finding(_UNSAFE_TAGS[kind], f"Its dynamic section has {kind}")
        elif kind == "DT_FLAGS" and tag.entry.d_val & _UNSAFE_FLAGS:
            yield _finding("library-path", f"Its dynamic section has DT_FLAGS {tag.entry.d_val:#x}")


def _symbols(sections: _Sections) -> Iterator[ScreenFinding]:
    """Yields findings on the symbols of the shared object whose `sections` these are: forbidden imports, a
    missing entry point, names of libraries that the file replaces, functions chosen at load (ifunc)."""
    exported = {}
    for name, kind, section, *_ in _table(sections, ".dynsym"):
        if section:
            exported[name] = kind
        elif name not in _NAMES and not matches(name, _PATTERNS):
            instead = hint(name, RULES["hints"]) or "use only what docs/candidates.md allows"
            yield _finding("forbidden-import", f"It imports `{name}`: {instead}")
    for name in ("launch_gpu_implementation", "kernelblaster_call"):
        if exported.get(name) != _FUNCTION:
            yield _finding("missing-entry", f"It does not export the function `{name}`")
    for name in sorted(exported):
        if name.startswith(("kernelblaster_", "__cuda")) and name != "kernelblaster_call":
            yield _finding("interposition", f"It defines `{name}`, a name that is not its own")
    # Also hidden symbols: the start files call __gmon_start__ at load wherever it is defined.
    for name, kind, section, *_ in _table(sections, ".symtab"):
        if section and name in _NAMES:
            yield _finding("interposition", f"It defines `{name}` in place of the library's")
        if kind == _INDIRECT_FUNCTION:
            yield _finding("load-time-code", f"`{name}` is chosen by code that runs at load (ifunc)")


def _table(sections: _Sections, name: str) -> Iterator[tuple[str, int, int, int, int]]:
    """Yields (name, type, section index, address, size) of each named symbol in the symbol table `name`;
    section 0: not defined in this file. Nothing if there is no such table."""
    section = sections.get(name)
    if not isinstance(section, SymbolTableSection):
        return
    names = section.stringtable.data()
    for at, info, _, index, address, size in struct.iter_unpack("<IBBHQQ", section.data()):
        if at:
            text = names[at : names.index(b"\0", at)].decode(errors="replace")
            yield text, info & 15, index, address, size


def _memory(elf: ELFFile, sections: _Sections) -> Iterator[ScreenFinding]:
    """Yields findings on executable stacks, memory that is writable and executable, and code in unusual
    sections."""
    segments = [(segment["p_type"], segment["p_flags"]) for segment in elf.iter_segments()]
    stack = [flags for kind, flags in segments if kind == "PT_GNU_STACK"]
    if not stack or stack[0] & _EXECUTABLE:
        yield _finding("executable-memory", "It asks for an executable stack")
    both = _EXECUTABLE | _WRITABLE
    if any(kind == "PT_LOAD" and flags & both == both for kind, flags in segments):
        yield _finding("executable-memory", "It has memory that is writable and executable")
    for name, section in sections.items():
        if section["sh_flags"] & _EXECUTABLE_SECTION and name not in _BINARY["executable_sections"]:
            yield _finding("executable-memory", f"It has code in the section `{name}`")


def _load_time(sections: _Sections) -> Iterator[ScreenFinding]:
    """Yields findings on code that would run when the file is loaded or unloaded, beyond what nvcc and the
    C++ library always add."""
    targets = {}
    for section in sections.values():
        if section["sh_type"] == "SHT_RELA":
            for at, info, addend in struct.iter_unpack("<QQq", section.data()):
                if info & 0xFFFFFFFF == _RELATIVE:
                    targets[at] = addend
                elif info & 0xFFFFFFFF == _INDIRECT_RELATIVE:
                    yield _finding("load-time-code", "A relocation runs code at load (ifunc)")
        elif section.name in (".preinit_array", ".ctors", ".dtors"):
            yield _finding("load-time-code", f"It has a section `{section.name}`")
    functions = {
        address: (name, size)
        for name, kind, _, address, size in _table(sections, ".symtab")
        if kind == _FUNCTION
    }
    usual = {
        ".init_array": ["frame_dummy", _REGISTRATION],
        ".fini_array": ["__do_global_dtors_aux"],
    }
    for array, expected in usual.items():
        for address in _entries(sections.get(array), targets):
            name, size = functions.get(address, (f"{address:#x}", 0))
            if name in expected:
                expected.remove(name)
            elif array != ".init_array" or not _only_sets_up_streams(sections, address, size):
                yield _finding(
                    "load-time-code",
                    f"`{name}` in {array} runs when the file is loaded or unloaded: initialize "
                    "with constants, or in a static variable of the function",
                )


def _entries(array: Section | None, targets: dict[int, int]) -> Iterator[int]:
    """Yields the addresses of the functions in an initialization array (.init_array); `targets` are relocated
    values by address. Nothing if `array` is None."""
    if array is not None:
        for index, (content,) in enumerate(struct.iter_unpack("<Q", array.data())):
            yield targets.get(array["sh_addr"] + 8 * index, content)


def _only_sets_up_streams(sections: _Sections, address: int, size: int) -> bool:
    """Whether the function of `size` bytes at `address`, which runs at load, does no more than <iostream>
    (which cub includes) needs: it calls the constructor of one library object and registers its
    destructor."""
    text = sections[".text"]
    begin = address - text["sh_addr"]
    code = text.data()[begin : begin + size]
    if not code or len(code) > 64 or not _SETUP.fullmatch(code):
        return False
    imports = [s for name, s in sections.items() if name in _IMPORTS]
    calls = [
        address + found.end() + int.from_bytes(found[1], "little", signed=True)
        for found in _CALL.finditer(code)
        if _SETUP.fullmatch(code[: found.start()])
    ]
    outside = all(any(0 <= call - s["sh_addr"] < s["sh_size"] for s in imports) for call in calls)
    names = {name for name, *_ in _table(sections, ".symtab")}
    return outside and len(calls) == 2 and _STREAMS in names


def _finding(rule: str, detail: str) -> ScreenFinding:
    return ScreenFinding(rule, detail + ".", None)
