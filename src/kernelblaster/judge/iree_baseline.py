"""IREE (iree.dev) as a baseline that candidates are compared with: the task's module, exported by PyTorch, is
compiled and run by IREE on the GPU or, for tests, on the host. Needs the packages of
`kernelblaster[iree]`."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch

from kernelblaster.devices.occupancy import nearest_earlier
from kernelblaster.errors import KernelBlasterError
from kernelblaster.tasks.reference import ModuleReference

PACKAGES = ("iree.compiler", "iree.runtime")
CPU, CUDA = 1, 2  # kinds of devices, as DLPack numbers them
ENTRY = "main"
KNOWN = (75, 80, 86, 89)  # compute capabilities that IREE 3.13 compiles for; a later GPU runs their PTX


def why_no_iree() -> str | None:
    """Why IREE cannot be used here, in a sentence; None if it is installed."""
    if find_spec("iree") is not None and all(find_spec(package) is not None for package in PACKAGES):
        return None
    return "IREE is not installed; pip install 'kernelblaster[iree]'."


def iree_run(
    reference: ModuleReference, architecture: str
) -> Callable[[list[torch.Tensor]], list[torch.Tensor]]:
    """Returns a function that computes the module's outputs from its inputs, like `ModuleReference.run`, but
    by IREE. It runs on the reference's device (a GPU of this `architecture`, or the host) with the parameters
    that the module has at the time of the call, and returns when the outputs are ready. Its first call
    compiles the module for the shapes of the inputs, and raises KernelBlasterError if IREE cannot do that.
    `iree_run` itself raises KernelBlasterError if IREE is not installed."""
    reason = why_no_iree()
    if reason is not None:
        raise KernelBlasterError(reason)
    made: list[_Program] = []

    def run(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        tensors = [*reference.state, *inputs]
        if not made:
            made.append(_Program(reference, tensors, architecture))
        return made[0](tensors)

    return run


class _Program:
    """A PyTorch module compiled by IREE: call it with the module's parameters and then its inputs, in one
    list."""

    def __init__(self, reference: ModuleReference, tensors: list[torch.Tensor], architecture: str) -> None:
        from iree import runtime

        self._runtime = runtime
        self._on_gpu = reference.device.type == "cuda"
        driver = runtime.get_driver("cuda" if self._on_gpu else "local-task")
        self._device = driver.create_default_device()
        context = runtime.SystemContext(config=runtime.Config(device=self._device))
        binary = _compiled(reference, tensors, architecture)
        context.add_vm_module(runtime.VmModule.copy_buffer(context.instance, binary))
        self._entry = context.modules.module[ENTRY]

    def __call__(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        if self._on_gpu:
            torch.cuda.synchronize()  # IREE has a stream of its own
        outputs = self._entry(*(self._given(tensor) for tensor in tensors))
        return [self._taken(one) for one in (outputs if isinstance(outputs, tuple | list) else (outputs,))]

    def _given(self, tensor: torch.Tensor) -> Any:
        """A PyTorch tensor as IREE's array, sharing its memory (copied first if it is not contiguous)."""
        capsule = tensor.contiguous().__dlpack__()
        return self._runtime.DeviceArray(self._device, self._device.from_dlpack_capsule(capsule))

    def _taken(self, array: Any) -> torch.Tensor:
        """Converts a result: IREE's `array` as a PyTorch tensor on the same device, which shares its
        memory."""
        kind = CUDA if self._on_gpu else CPU
        return torch.utils.dlpack.from_dlpack(self._device.create_dlpack_capsule(array._buffer_view, kind, 0))


def _compiled(reference: ModuleReference, tensors: list[torch.Tensor], architecture: str) -> bytes:
    """The module of `reference` compiled to IREE's binary for tensors of these shapes. Raises
    KernelBlasterError if PyTorch cannot export or IREE cannot compile it."""
    from iree import compiler
    from iree.compiler.extras.fx_importer import FxImporter

    target, option = "llvm-cpu", "--iree-llvmcpu-target-cpu=host"
    if reference.device.type == "cuda":
        target, option = "cuda", f"--iree-cuda-target=sm_{nearest_earlier(KNOWN, architecture)}"
    try:
        with torch.no_grad():
            program = torch.export.export(reference.functional(), tuple(tensors)).run_decompositions()
        importer = FxImporter()
        importer.import_program(program, func_name=ENTRY)
        text = str(importer.module)
        return bytes(
            compiler.compile_str(text, target_backends=[target], input_type="torch", extra_args=[option])
        )
    except Exception as error:  # of many kinds, by three programs
        lines = [line for line in str(error).splitlines() if "error" in line.lower()] or [str(error)]
        raise KernelBlasterError(f"IREE cannot compile it: {lines[0].strip()[:300]}") from error
