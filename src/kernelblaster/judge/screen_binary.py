"""Screens a compiled candidate before it is loaded.

It decides what the loader would do with the file, and what its host code could do: which symbols
and libraries it asks for, what runs at load, which memory is executable, which instructions its
host code contains. x86-64 only.

Not covered: host code that computes addresses (a libc function reached by its distance from
another one, code in the middle of an instruction beyond the check of constants here). The
worker's own confinement has to hold against that. Device code is not looked at.
"""

import itertools
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Section, SymbolTableSection

from kernelblaster.errors import KernelBlasterError, NoCompiler
from kernelblaster.judge.screen_source import MOST_FINDINGS, RULES, Finding, hint, matches

_Sections = dict[str, Section]
_BINARY: dict[str, Any] = RULES["binary"]

ALLOWED_CUDA: tuple[str, ...] = tuple(_BINARY["cuda"])
"""The CUDA functions that a candidate may import; the worker exports one shim for each."""

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

# Opcodes that also work when a jump lands on them inside a constant: syscall, sysenter, int 0x80,
# rdtsc, rdpmc, rdtscp.
_OPCODES = tuple(map(bytes.fromhex, ("0f05", "0f34", "cd80", "0f31", "0f33", "0f01f9")))
_CONSTANT = re.compile(r"\$0x([0-9a-f]{3,})|(-?)0x([0-9a-f]{3,})\(%(?!rip)")
_FORBIDDEN = frozenset(_BINARY["instructions"])
_INSTRUCTION = re.compile(
    rf"^ *[0-9a-f]+:\t(?:[\w.]+ )*?({'|'.join(map(re.escape, _FORBIDDEN))})(?: .*)?$", re.M
)
_REGISTRATION = "_ZL24__sti____cudaRegisterAllv"
_STREAM_SETUP = {
    "_ZStL8__ioinit",
    "_ZNSt8ios_base4InitC1Ev@plt",
    "_ZNSt8ios_base4InitD1Ev",
    "__dso_handle",
    "__cxa_atexit@plt",
}
_INIT, _FINI = "sub mov test je call add ret", "sub add ret"  # of the compiler's start files


def screen_binary(path: Path) -> list[Finding]:
    """Every reason why the shared object at `path` may not be loaded; none means that it is clean.

    Raises `NoCompiler` without objdump, and `KernelBlasterError` if `path` is no x86-64 ELF file:
    neither says anything about the candidate.
    """
    code = _disassemble(path)
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
                _load_time(sections, code),
                _host_code(code),
            ]
            findings = (finding for rule in rules for finding in itertools.islice(rule, MOST_FINDINGS))
            return list(dict.fromkeys(findings))
    except ELFError as error:
        raise KernelBlasterError(f"{path}: not a readable ELF file: {error}.") from error


@dataclass(frozen=True)
class _Code:
    """What objdump shows: its whole text, and for each function its address, name and lines."""

    text: str
    functions: dict[int, tuple[str, str]]
    sections: dict[str, str]

    def function_at(self, offset: int) -> str:
        """The name of the function at an offset of the text."""
        labels = re.findall(r"^[0-9a-f]+ <(.+)>:$", self.text[:offset], re.M)
        return str(labels[-1]) if labels else "?"


def _disassemble(path: Path) -> _Code:
    objdump = shutil.which("objdump")
    if objdump is None:
        raise NoCompiler("objdump was not found: install binutils, which g++ needs as well.")
    command = [objdump, "-d", "--no-show-raw-insn", "--wide", str(path)]
    english = {"LC_ALL": "C"}  # its headings are read below
    done = subprocess.run(command, env=english, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        raise KernelBlasterError(f"{path}: objdump failed: {done.stderr.strip()}")
    parts = re.split(r"^Disassembly of section (.+):$", done.stdout, flags=re.M)[1:]
    blocks = re.split(r"^([0-9a-f]+) <(.+)>:$", done.stdout, flags=re.M)[1:]
    functions = {
        int(address, 16): (name, lines)
        for address, name, lines in zip(blocks[::3], blocks[1::3], blocks[2::3], strict=True)
    }
    return _Code(done.stdout, functions, dict(zip(parts[::2], parts[1::2], strict=True)))


def _libraries(sections: _Sections) -> Iterator[Finding]:
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


def _symbols(sections: _Sections) -> Iterator[Finding]:
    exported = {}
    for name, kind, defined in _table(sections, ".dynsym"):
        if defined:
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
    for name, kind, defined in _table(sections, ".symtab"):
        if defined and name in _NAMES:
            yield _finding("interposition", f"It defines `{name}` in place of the library's")
        if kind == _INDIRECT_FUNCTION:
            yield _finding("load-time-code", f"`{name}` is chosen by code that runs at load (ifunc)")


def _table(sections: _Sections, name: str) -> Iterator[tuple[str, int, bool]]:
    """The name and type of each symbol of a table, and whether it is defined here."""
    section = sections.get(name)
    if not isinstance(section, SymbolTableSection):
        return
    names = section.stringtable.data()
    for at, info, _, index, _, _ in struct.iter_unpack("<IBBHQQ", section.data()):
        if at:
            yield names[at : names.index(b"\0", at)].decode(errors="replace"), info & 15, index != 0


def _memory(elf: ELFFile, sections: _Sections) -> Iterator[Finding]:
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


def _load_time(sections: _Sections, code: _Code) -> Iterator[Finding]:
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
    usual = {
        ".init_array": ["frame_dummy", _REGISTRATION],
        ".fini_array": ["__do_global_dtors_aux"],
    }
    for array, expected in usual.items():
        for name, lines in _entries(sections.get(array), targets, code):
            if name in expected:
                expected.remove(name)
            elif array != ".init_array" or not _only_sets_up_streams(lines):
                yield _finding(
                    "load-time-code",
                    f"`{name}` in {array} runs when the file is loaded or unloaded: initialize "
                    "with constants, or in a static variable of the function",
                )
    for section_name, shape in ((".init", _INIT), (".fini", _FINI)):
        found = re.findall(r"^ *[0-9a-f]+:\t(\w+)", code.sections.get(section_name, ""), re.M)
        mnemonics = [re.sub("^(call|ret)q$", r"\1", m) for m in found if m not in ("endbr64", "nop")]
        if " ".join(mnemonics) != shape:
            yield _finding("load-time-code", f"Its section `{section_name}` is not the compiler's own")


def _entries(array: Section | None, targets: dict[int, int], code: _Code) -> Iterator[tuple[str, str]]:
    """The functions that an array of addresses names, each with its disassembled lines."""
    if array is not None:
        for index, (content,) in enumerate(struct.iter_unpack("<Q", array.data())):
            address = targets.get(array["sh_addr"] + 8 * index, content)
            yield code.functions.get(address, (f"{address:#x}", ""))


def _only_sets_up_streams(lines: str) -> bool:
    """Whether a function does no more than <iostream> needs, which old versions of cub include."""
    symbols = set(re.findall(r"<([^>@+]+(?:@plt)?)", lines))
    steps = re.findall(r"^ *[0-9a-f]+:\t(\w+)", lines, re.M)
    plain = {"endbr64", "push", "pop", "lea", "mov", "call", "jmp", "ret", "sub", "add"}
    work = [step for step in steps if not step.startswith(("nop", "data16", "cs", "xchg"))]
    return symbols == _STREAM_SETUP and len(work) <= 12 and set(work) <= plain


def _host_code(code: _Code) -> Iterator[Finding]:
    suspects = _INSTRUCTION.finditer(code.text) if _FORBIDDEN & set(code.text.split()) else ()
    for found in suspects:
        where = code.function_at(found.start())
        yield _finding("host-assembly", f"The host function `{where}` uses `{found[1]}`")
    for written in sorted(set(_CONSTANT.findall(code.text))):
        value = int("".join(written), 16) & 0xFFFF_FFFF_FFFF_FFFF
        if any(opcode in value.to_bytes(8, "little") for opcode in _OPCODES):
            detail = f"The constant {value:#x} in its host code could be run as a system call or a clock"
            yield _finding("hidden-instruction", detail + ": read it from a volatile variable")


def _finding(rule: str, detail: str) -> Finding:
    return Finding(rule, detail + ".", None)
