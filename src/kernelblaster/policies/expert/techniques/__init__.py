"""The expert policy's optimization techniques, one file each; `load_techniques` collects them.

A technique rewrites a plan: the kernels to be written, in launch order, each with a schedule, which says how
its loops are mapped to threads. It changes how a kernel computes, never what, and does not see CUDA text.
Every file has `APPLIES_TO`, the types of schedules (schedules/) whose kernels the technique can change, and
one of these:

- `REWRITES`: functions (kernel, plan, GPU) that return another kernel, or a `No` with the reason why
  not. There is one function for each variant of the technique, the most promising first. With
  `SINGLY = False`, a variant is only applied to all kernels at once, never to one alone.
- `PLAN_REWRITES`: the same for techniques that replace a kernel by several; the functions return a plan.
- `apply(plan, gpu)` and `why_not(plan)`, for techniques on whole plans. `apply` yields plans; `why_not`
  returns the reason why it yields none, or None.

A file with `ARCHITECTURE` (such as `sm_90a`) is only for GPUs of that architecture. One with `GPU_ONLY` is
not used on the emulator of PTX: either the emulator lacks its instructions, or candidates are compared there
with a baseline on the host, which rounds in another way."""

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import ModuleType

from kernelblaster.devices.specs import GpuSpec, gpu_named
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.rewriting import No, everywhere, one_after_another

USUAL_GPU = "h200"  # whose data is taken where no GPU is named


@dataclass(frozen=True)
class Technique:
    """One optimization technique, with the `name` of its file (`module`), for the GPU `gpu`. Called with a
    plan (the kernels of a candidate), it yields changed plans."""

    name: str
    module: ModuleType
    gpu: GpuSpec

    @property
    def applies_to(self) -> tuple[type, ...]:
        """The types of schedules (layouts of kernels on the GPU) whose kernels the technique can change."""
        found: tuple[type, ...] = self.module.APPLIES_TO
        return found

    def __call__(self, plan: Plan) -> Iterator[Plan]:
        """Every plan that one application of the technique to `plan` can give, the most promising first; each
        differs from `plan` and from the others. Nothing if it does not apply."""
        seen = [plan.kernels]
        for found in self._plans(plan):
            if found.kernels not in seen:
                seen.append(found.kernels)
                yield found

    def _plans(self, plan: Plan) -> Iterator[Plan]:
        module = self.module
        if hasattr(module, "REWRITES"):
            singly = getattr(module, "SINGLY", True)
            return everywhere(plan, self.gpu, self.applies_to, module.REWRITES, singly=singly)
        if hasattr(module, "PLAN_REWRITES"):
            return one_after_another(plan, self.gpu, self.applies_to, module.PLAN_REWRITES)
        found: Iterator[Plan] = module.apply(plan, self.gpu)
        return found

    def why_not(self, plan: Plan) -> dict[str, str]:
        """Returns why the technique does not apply, as a mapping from the names of kernels of `plan` to
        reasons in words. Kernels to which it applies are left out."""
        said = {kernel.name: self._refusal(kernel, plan) for kernel in plan.kernels}
        return {name: why for name, why in said.items() if why is not None}

    def _refusal(self, kernel: Kernel, plan: Plan) -> str | None:
        if not isinstance(kernel.schedule, self.applies_to):
            kinds = ", ".join(sorted(kind.__name__ for kind in self.applies_to))
            return f"its schedule is {type(kernel.schedule).__name__}, and {self.name} is for {kinds}"
        rewrites = getattr(self.module, "REWRITES", None) or getattr(self.module, "PLAN_REWRITES", None)
        if rewrites is None:
            why: str | None = self.module.why_not(plan)
            return why
        answers = [rewrite(kernel, plan, self.gpu) for rewrite in rewrites]
        refusals = [answer.because for answer in answers if isinstance(answer, No)]
        return refusals[0] if len(refusals) == len(answers) else None


@cache
def _modules() -> dict[str, ModuleType]:
    names = sorted(found.name for found in pkgutil.iter_modules(__path__))
    return {name: importlib.import_module(f"{__name__}.{name}") for name in names}


def load_techniques(gpu: GpuSpec | None = None, emulated: bool = False) -> dict[str, Technique]:
    """Returns the techniques of this folder that can be used on `gpu`, by the names of their files.
    Techniques for GPUs of another architecture are left out. If `emulated`, the PTX machine (an emulator)
    stands for that GPU, and techniques marked `GPU_ONLY` are left out too. If `gpu` is None, techniques for
    all architectures are returned."""
    found = {}
    for name, module in _modules().items():
        fits = gpu is None or getattr(module, "ARCHITECTURE", gpu.architecture) == gpu.architecture
        if fits and not (emulated and getattr(module, "GPU_ONLY", False)):
            found[name] = Technique(name, module, gpu or gpu_named(USUAL_GPU))
    return found
