"""Transposed staging: if an input is contiguous along another axis than the result, its tiles are read
coalesced into shared memory, transposed there, and the results written coalesced."""

from dataclasses import replace

from kernelblaster.devices.specs import GpuSpec
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.rewriting import No
from kernelblaster.policies.expert.schedules.pointwise import ElementPerThread, TransposedTiles
from kernelblaster.policies.expert.transposition import transposition

APPLIES_TO = (ElementPerThread,)


def _staged(kernel: Kernel, plan: Plan, gpu: GpuSpec) -> Kernel | No:
    assert isinstance(kernel.schedule, ElementPerThread)
    if transposition(kernel, plan) is None:
        return No("no tensor, or more than one axis, is read across the result's memory")
    return replace(kernel, schedule=TransposedTiles(kernel.schedule.threads))


REWRITES = (_staged,)
