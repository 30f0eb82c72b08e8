"""Rewrites of plans, one file each; a new technique is one new file.

A technique sees the plan and the GPU's data, and nothing of how kernels are written. What a kernel computes
never changes, only how. A file has

- `APPLIES_TO`, the types of schedules (schedules/) of the kernels that it is for,
- `REWRITES`, functions of a kernel, its plan and the GPU that give another kernel, or say why not (`No`): one
  for each plan that an application can give, the most promising first. `SINGLY = False` if it is applied to
  all kernels or none. `PLAN_REWRITES` give a plan instead, where a kernel becomes several,
- or `apply(plan, gpu)`, which yields plans, and `why_not(plan)`, where it is about whole plans.

One that needs a certain architecture names it as ARCHITECTURE, and one that is of no use on the PTX machine,
which has no such instructions or another baseline, says GPU_ONLY."""

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
    """One technique on a GPU."""

    name: str
    module: ModuleType
    gpu: GpuSpec

    @property
    def applies_to(self) -> tuple[type, ...]:
        """The types of schedules of the kernels that it is for."""
        found: tuple[type, ...] = self.module.APPLIES_TO
        return found

    def __call__(self, plan: Plan) -> Iterator[Plan]:
        """Every plan that one application can give, the most promising first; each of them differs from the
        plan and from the others."""
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
        """For each kernel that it does not apply to, why, in words."""
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
    """Every technique of this folder by its name, which is its file's name; with a GPU, those that it, or the
    PTX machine in its place, has the instructions for."""
    found = {}
    for name, module in _modules().items():
        fits = gpu is None or getattr(module, "ARCHITECTURE", gpu.architecture) == gpu.architecture
        if fits and not (emulated and getattr(module, "GPU_ONLY", False)):
            found[name] = Technique(name, module, gpu or gpu_named(USUAL_GPU))
    return found
