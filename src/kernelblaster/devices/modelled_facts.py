"""The device attributes that a candidate's host code gets when it queries a GPU that is only modelled, by
their numbers in the enum `cudaDeviceAttr`."""

import secrets

from kernelblaster.devices.device import GpuFacts
from kernelblaster.devices.occupancy import capability, limits_of
from kernelblaster.devices.specs import GpuSpec

WIDE_GB_S = 1500  # beyond that, memory is stacked and its bus wide
MODELLED_MEMORY = 80 << 30
RESERVED_MEMORY = 3 << 30  # of it at most what drivers keep for themselves, so that no number tells a model
CLUSTERS_SINCE = 9  # compute capability
OF_EVERY_GPU = {
    17: 0, 18: 0, 20: 0, 34: 0, 35: 0,  # no limit of time, not integrated, default mode, place on its bus
    21: 131072, 22: 131072, 23: 65536, 24: 16384, 25: 16384, 26: 16384,  # extents of textures
    27: 32768, 28: 32768, 29: 2048, 42: 32768, 43: 2048, 45: 32768, 46: 32768, 47: 8192, 48: 8192, 49: 32768,
    52: 32768, 53: 32768, 54: 2046, 69: 1 << 28, 70: 131072, 71: 65000, 72: 2097120, 73: 32768, 74: 32768,
    77: 32768,
    55: 32768, 56: 131072, 57: 65536, 58: 16384, 59: 16384, 60: 16384, 61: 32768, 62: 2048,  # and of surfaces
    63: 32768, 64: 32768, 65: 2048, 66: 32768, 67: 32768, 68: 2046,
    84: 0, 85: 0, 86: 0, 87: 2, 88: 1, 89: 1, 91: 1, 98: 0, 99: 1, 100: 0, 101: 0,  # memory of the host
    109: 134213632, 112: 1, 113: 1, 114: 1, 116: 1, 117: 1, 118: 100, 119: 9, 121: 1, 125: 1, 126: 4,
    130: 0, 131: -1, 133: 0, 134: 0,
}  # fmt: skip
"""As an H100 with a usual driver reports them."""


def facts_of(spec: GpuSpec) -> GpuFacts:
    """Returns the properties that a candidate's host code gets when it queries the GPU `spec`, which is only
    modelled: name, memory size in bytes, and device attributes by their number in `cudaDeviceAttr`. The
    memory size is lower by a random amount of up to 3 GiB at each call, so that host code cannot recognize
    the model by it."""
    limits = limits_of(spec.architecture)
    major, minor = divmod(capability(spec.architecture), 10)
    attributes = {
        1: 1024,  # threads of a block
        2: 1024, 3: 1024, 4: 64, 5: 2**31 - 1, 6: 65535, 7: 65535,  # extents of blocks and grids
        8: 48 << 10,  # shared memory of a block, by default
        9: 65536,  # constant memory
        10: 32,  # threads of a warp
        11: 2**31 - 1,  # bytes of a pitch
        12: limits.registers,  # registers of a block
        13: 1_980_000, 36: 3_201_000,  # clock rates in kHz
        14: 512, 30: 512, 51: 32,  # alignments of textures and surfaces
        15: 1, 19: 1, 40: 3, 41: 1, 78: 1, 79: 1, 80: 1, 83: 1, 90: 1,  # what every such GPU can do
        16: spec.multiprocessors,
        31: 1,  # concurrent kernels
        32: 1,  # error correction
        33: 0x1B, 50: 0,  # where it is plugged in
        37: 6144 if spec.dram_gb_s > WIDE_GB_S else 384,  # bits of the memory's bus
        38: int(spec.l2_mb * 1e6),
        39: limits.threads,  # of an SM
        75: major,
        76: minor,
        81: limits.shared_bytes,  # of an SM
        82: limits.registers,  # of an SM
        95: 1,  # cooperative launches
        97: limits.shared_bytes - limits.reserved_shared_bytes,  # of a block that asks for it
        106: limits.blocks,  # of an SM
        108: int(spec.l2_mb * 0.6e6),  # L2 that may persist
        111: limits.reserved_shared_bytes,
        115: 1,  # stream-ordered allocation
        120: int(major >= CLUSTERS_SINCE),
        **OF_EVERY_GPU,
    }  # fmt: skip
    memory = MODELLED_MEMORY - (1 + secrets.randbelow(RESERVED_MEMORY >> 16) << 16)
    return GpuFacts(spec.title, memory, attributes)
