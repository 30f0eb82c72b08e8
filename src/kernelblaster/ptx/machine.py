"""Python interface of the PTX machine, the emulator that runs kernels without a GPU: load a PTX text, launch
kernels on host memory, read the report of each launch."""

import ctypes
import json
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from kernelblaster.errors import KernelBlasterError
from kernelblaster.ptx.build import machine_library

BUDGET = 50_000_000
MARK = (0x9D6F3C1AB5E27084, 0x5A0CF1E6D42B8397)  # begins a tensor map in memory; a number follows
READ_ONLY = 2  # a kind of memory, in the native code
ACCESS_WORK = 12  # warp instructions that take the machine as long as a warp's access to memory
Triple = tuple[int, int, int]


@dataclass(frozen=True)
class MachineFinding:
    """Something wrong in an emulated launch: either a fault that ended it, or a suspicious event that did
    not, such as a race. `kind` names it in one word, `detail` describes it in words; `kernel`, `line` (of the
    CUDA source), `block` and `thread` (indices x, y, z) say where it happened."""

    kind: str
    detail: str
    kernel: str
    line: int
    block: Triple
    thread: Triple


@dataclass(frozen=True)
class Report:
    """The result of one emulated launch. `findings` are the faults and suspicious events; `stopped`: one of
    them ended the launch early. `counts` are counters by name (instructions, sectors, bank conflicts);
    `printed` is what kernels printed with printf. `costs` are the costs of the blocks that were run, for the
    timing model; None unless `Machine.sample_for` was called before. `doubtful`: some volatile or relaxed
    read might have returned an older value on real hardware. `exhausted`: the launch was ended because it
    reached the limit `Draws.most_work`."""

    findings: tuple[MachineFinding, ...]
    stopped: bool
    counts: dict[str, Any]
    printed: str = ""
    costs: dict[str, Any] | None = None
    doubtful: bool = False
    exhausted: bool = False


@dataclass(frozen=True)
class Attributes:
    """CUDA launch attributes. `dependent`: programmatic stream serialization, by which the kernel may start
    before the previous launch has ended. `cooperative`: a cooperative launch. `cluster` is the cluster size
    in blocks in x, y, z; if it is None, the one that the kernel was compiled with. `resident` is how many
    clusters (or blocks, without clusters) the GPU runs at once; 0 means all of the launch."""

    dependent: bool = False
    cooperative: bool = False
    cluster: Triple | None = None
    resident: int = 0


PLAIN = Attributes()


@dataclass(frozen=True)
class Draws:
    """How the emulator behaves where real hardware may behave in several ways, and two properties of the GPU:
    the number of its SMs, and the number of warps that one SM can hold (`warp_slots`).

    `seed` determines all random choices (hardware identifiers, clocks, schedule, errors). `most_blocks`: run
    only this many blocks of a launch whose blocks do not communicate; 0: all. `inexact`: how large the errors
    in the last bits of approximate functions are, which the seed draws: from 1 (as large as documented) to 7
    (very small); with 0, these bits are the same in every run. `skips`: the results of the launch are not
    used, so instructions that the emulator lacks are left out where that is safe. `stale`: volatile and
    relaxed reads return older values where the memory model allows it. `unordered`: races are not looked for,
    which saves memory (six bytes for every byte accessed). `most_work`: end a launch after so many warp
    instructions, where an access to memory counts as 12 (ACCESS_WORK); 0: never.
    """

    seed: int = 0
    multiprocessors: int = 132
    warp_slots: int = 64
    most_blocks: int = 0
    inexact: int = 0
    skips: bool = False
    stale: bool = False
    unordered: bool = False
    most_work: int = 0

    @property
    def words(self) -> tuple[int, ...]:
        """All fields as integers, in the order of their declaration, in which they are passed to the
        emulator's C++ code."""
        return (
            *(self.seed, self.multiprocessors, self.warp_slots, self.most_blocks, self.inexact),
            *(int(self.skips), int(self.stale), int(self.unordered), self.most_work),
        )


class BadPtx(KernelBlasterError):
    """Raised for a text that is not PTX, or that the emulator cannot read; the message names the line."""


class NotEmulated(KernelBlasterError):
    """A kernel uses something that the emulator lacks, mostly an instruction; the message has its name and
    source line."""


class InvalidLaunch(KernelBlasterError):
    """Raised for a launch that no GPU would accept, because of its grid, block, shared memory or a tensor
    map; the message says which."""


@cache
def _library() -> ctypes.CDLL:
    """The emulator's shared library with its C functions declared, loaded once per process; compiled first if
    it is not in the cache."""
    library = ctypes.CDLL(str(machine_library()))
    library.ptx_machine_new.restype = ctypes.c_void_p
    library.ptx_machine_free.argtypes = [ctypes.c_void_p]
    library.ptx_memory_add.argtypes = [
        ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_char_p, ctypes.c_int
    ]  # fmt: skip
    library.ptx_tensor_map.restype = ctypes.c_char_p
    library.ptx_tensor_map.argtypes = [
        ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int, ctypes.POINTER(ctypes.c_int64), ctypes.c_uint64
    ]  # fmt: skip
    library.ptx_tensor_maps_clear.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64]
    library.ptx_heap_clear.restype = ctypes.c_uint64
    library.ptx_heap_clear.argtypes = [ctypes.c_void_p]
    library.ptx_memory_remove.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    library.ptx_model.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_double), ctypes.c_int]
    library.ptx_launch_attributes.argtypes = [
        ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint64
    ]  # fmt: skip
    counts, switches = [ctypes.c_uint32] * 4, [ctypes.c_int] * 3
    library.ptx_draws.argtypes = [
        ctypes.c_void_p, ctypes.c_uint64, *counts, *switches, ctypes.c_uint64
    ]  # fmt: skip
    library.ptx_load.restype = ctypes.c_char_p
    library.ptx_load.argtypes = [
        ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64, ctypes.POINTER(ctypes.c_void_p)
    ]  # fmt: skip
    library.ptx_unload.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    library.ptx_launch.restype = ctypes.c_char_p
    library.ptx_launch.argtypes = [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64,
        ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int,
    ]  # fmt: skip
    return library


class Machine:
    """An instance of the emulator, to be used as a context. It holds the loaded modules and knows which parts
    of this process's memory kernels may access; all addresses are addresses in this process."""

    def __init__(self) -> None:
        self._library = _library()
        self._handle = self._library.ptx_machine_new()

    def __enter__(self) -> "Machine":
        return self

    def __exit__(self, *_: object) -> None:
        self._library.ptx_machine_free(self._handle)

    def allow(
        self, address: int, size: int, name: str, *, tracked: bool = False, read_only: bool = False
    ) -> None:
        """Lets kernels access `size` bytes at `address`; `name` stands for this memory in findings. With
        `tracked`, reading a byte before it is written is a finding. With `read_only`, writing is a
        finding."""
        kind = READ_ONLY if read_only else int(tracked)
        self._library.ptx_memory_add(self._handle, address, size, name.encode(), kind)

    def tensor_map(self, number: int, numbers: Sequence[int], *, im2col: bool = False) -> bytes:
        """Makes a tensor map (the descriptor that TMA copies take) and returns the 128 bytes to pass to a
        kernel as its argument. `numbers` are the arguments of cuTensorMapEncodeTiled or, with `im2col`, of
        cuTensorMapEncodeIm2col, in the order of native/tensor_map.h. `number` is the map's own number,
        counted from 0; making number 0 forgets all earlier maps. Raises NotEmulated for a kind of map that
        the emulator lacks, InvalidLaunch for arguments that CUDA would refuse."""
        if number == 0:
            self._library.ptx_tensor_maps_clear(self._handle, *MARK)
        values = (ctypes.c_int64 * len(numbers))(*numbers)
        wrong = self._library.ptx_tensor_map(self._handle, number, im2col, values, len(numbers)).decode()
        if wrong.startswith("not emulated"):
            raise NotEmulated(wrong)
        if wrong:
            raise InvalidLaunch(f"a tensor map: {wrong}")
        return struct.pack("16Q", *MARK, number, *[0] * 13)

    def clear_heap(self) -> int:
        """Free what kernels allocated with device-side malloc and did not free; returns how many bytes that
        was."""
        return int(self._library.ptx_heap_clear(self._handle))

    def forbid(self, address: int) -> None:
        """Revoke access to the memory that was allowed at this address; later accesses are reported as use
        after free."""
        self._library.ptx_memory_remove(self._handle, address)

    def sample_for(self, values: Sequence[float]) -> None:
        """From now on, only some blocks of each launch are run, and their costs are recorded for the timing
        model. `values` are numbers that describe the GPU and say which blocks to run, as
        `gpu_model.model_values` returns them. With an empty sequence, all blocks are run from then on."""
        self._library.ptx_model(self._handle, (ctypes.c_double * len(values))(*values), len(values))

    def draw(self, draws: Draws) -> None:
        """Sets, by `draws`, how the emulator behaves in later launches where real hardware may behave in
        several ways (order, rounding errors, older values in reads), and how much work it may do."""
        self._library.ptx_draws(self._handle, *draws.words)

    def load(self, text: str) -> "Module":
        """Loads a PTX text into this machine and returns it as a `Module`, whose kernels can be launched.
        Raises BadPtx if the text cannot be parsed."""
        data = text.encode()
        handle = ctypes.c_void_p()
        answer = self._library.ptx_load(self._handle, data, len(data), ctypes.byref(handle))
        described = json.loads(answer)
        if "error" in described:
            raise BadPtx(described["error"])
        return Module(self._library, self._handle, handle, described)


class Module:
    """A PTX text that is loaded into a machine (an instance of the emulator). `Machine.load` makes it; do not
    make it directly. `kernels` are the names of its kernels, `files` the source files that it names."""

    def __init__(
        self, library: ctypes.CDLL, machine: int, handle: ctypes.c_void_p, described: dict[str, Any]
    ) -> None:
        self._library = library
        self._machine = machine
        self._handle = handle
        self.files: list[str] = described["files"]
        self._kernels = {kernel["name"]: kernel for kernel in described["kernels"]}

    @property
    def kernels(self) -> list[str]:
        return list(self._kernels)

    def parameters(self, kernel: str) -> list[tuple[int, int]]:
        """Returns the layout of a kernel's parameter buffer: (offset, size) in bytes of each parameter, in
        order."""
        return [(offset, size) for offset, size in self._kernels[kernel]["parameters"]]

    def unsupported(self, kernel: str) -> str | None:
        """Returns in words why the emulator cannot run a kernel at all; None if it can. Single unknown
        instructions do not count: they raise NotEmulated when they are executed."""
        return self._kernels[kernel]["unsupported"] or None

    def launch(
        self,
        kernel: str,
        grid: Triple,
        block: Triple,
        arguments: Sequence[bytes],
        *,
        shared_bytes: int = 0,
        budget: int = BUDGET,
        attributes: Attributes = PLAIN,
    ) -> Report:
        """Runs a kernel of this module to its end or to the first fault, and returns the report. `grid` is in
        blocks, `block` in threads. `arguments` are the raw bytes of each parameter, `shared_bytes` is dynamic
        shared memory, `attributes` are CUDA's launch attributes. A warp that executes more than `budget`
        instructions counts as an endless loop, which is a fault. Raises NotEmulated if an instruction is
        missing in the emulator, InvalidLaunch if no GPU would accept the launch."""
        layout = self._kernels[kernel]["parameters"]
        packed = bytearray(max((offset + size for offset, size in layout), default=0))
        for (offset, size), argument in zip(layout, arguments, strict=True):
            packed[offset : offset + size] = argument[:size].ljust(size, b"\0")
        cluster = struct.pack("3I", *attributes.cluster) if attributes.cluster else None
        self._library.ptx_launch_attributes(
            self._machine, attributes.dependent, attributes.cooperative, cluster, attributes.resident
        )
        answer = self._library.ptx_launch(
            self._machine,
            self._handle,
            kernel.encode(),
            struct.pack("3I", *grid),
            struct.pack("3I", *block),
            shared_bytes,
            bytes(packed),
            len(packed),
            budget,
            len(os.sched_getaffinity(0)),
        )
        return _report(kernel, json.loads(answer))


def _report(kernel: str, answer: dict[str, Any]) -> Report:
    """The report of a launch, from the native code's JSON answer. Raises NotEmulated, InvalidLaunch, or
    KernelBlasterError for an internal error."""
    if "unsupported" in answer:
        raise NotEmulated(f"{kernel}: not emulated: {answer['unsupported']}")
    if "invalid" in answer:
        raise InvalidLaunch(f"{kernel}: invalid launch: {answer['invalid']}")
    if "error" in answer:
        raise KernelBlasterError(f"{kernel}: {answer['error']}")
    findings = tuple(
        MachineFinding(f["kind"], f["detail"], f["kernel"], f["line"], tuple(f["block"]), tuple(f["thread"]))
        for f in answer["findings"]
    )
    return Report(
        findings,
        bool(answer["stopped"]),
        answer["counts"],
        answer["printed"],
        answer.get("costs"),
        bool(answer["doubtful"]),
        bool(answer["exhausted"]),
    )
