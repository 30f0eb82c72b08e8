"""Writes the parts of prompts that describe the GPU, and the emulator that may stand in for it."""

from kernelblaster.devices.gpu_model import architecture_of
from kernelblaster.devices.occupancy import WARP, capability, limits_of, nearest_earlier
from kernelblaster.devices.specs import GpuSpec
from kernelblaster.judge.modelled import MODEL_ERROR
from kernelblaster.policies.expert.techniques import load_techniques

FEATURES = (
    (70, "mma on FP16"),
    (80, "cp.async, mma on TF32 and BF16"),
    (90, "clusters, TMA bulk copies, wgmma"),
    (100, "tcgen05"),
)
SHARED_KB = {70: 96, 75: 64, 80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 120: 99}
# docs/emulator.md has both lists and where the figures come from.
EMULATED = (
    "The device is an emulator of PTX: times (modelled) follow from its counts, half of them within 11% of "
    f"measured ones, nine in ten speedups within {MODEL_ERROR:g}x; a few per cent are noise. It runs "
    "clusters, cooperative launches, mbarrier and cp.async.bulk; with tensor maps (cp.async.bulk.tensor), "
    "wgmma, textures or malloc in kernels there is no verdict."
)


def gpu(spec: GpuSpec, *, modelled: bool) -> str:
    """Returns a description of the GPU `spec` in words: what an SM can hold, the GPU's peak rates, and the
    special instructions of its architecture. `modelled`: candidates run on the emulator; the text then names
    only instructions up to compute capability 8.0, and says what the emulator cannot run."""
    number = capability(spec.architecture)
    has = "; ".join(words for since, words in FEATURES if number >= since and (not modelled or since <= 80))
    shared = SHARED_KB[nearest_earlier(SHARED_KB, spec.architecture)]
    limits = limits_of(spec.architecture)
    ghz = spec.fp32_tflops * 1e3 / (2 * architecture_of(spec).fp32 * spec.multiprocessors)
    text = (
        f"{spec.title}, {spec.architecture}: {spec.multiprocessors} SMs at {ghz:.2f} GHz, each with "
        f"{limits.threads // WARP} warps, {limits.blocks} blocks, {limits.registers} registers, "
        f"{limits.shared_bytes >> 10} KB of shared memory ({shared} a block); "
        f"{spec.dram_gb_s:g} GB/s, {spec.l2_mb:g} MB L2; {spec.fp32_tflops:g} TFLOPS FP32, tensor cores "
        f"{spec.tf32_tflops:g} TF32, {spec.fp16_tflops:g} FP16. Has {has}."
    )
    return f"{text}\n{EMULATED}" if modelled else text


def only_on_hardware() -> frozenset[str]:
    """Returns the names of the built-in expert policy's techniques that are not used on the emulator: it
    lacks their instructions, or its baseline rounds in another way than a GPU's."""
    return frozenset(load_techniques().keys() - load_techniques(emulated=True).keys())
