"""Model the variants whose nature is known by construction, and keep their profiles for test_states.py.

python tests/policies/expert/record_states.py
"""

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
STORED = Path(__file__).parent / "data" / "modelled_profiles.json"
sys.path.insert(0, str(ROOT / "benchmarks"))

from variants import FOLDER, Kernel, read_variants  # noqa: E402

from kernelblaster.devices.emulated import EmulatedDevice  # noqa: E402
from kernelblaster.judge.baseline import ModuleBaseline  # noqa: E402
from kernelblaster.judge.compile import Binary, compile_candidate  # noqa: E402
from kernelblaster.judge.modelled import ModelledTimer  # noqa: E402
from kernelblaster.records import Profile  # noqa: E402
from kernelblaster.tasks.floor import floor_of  # noqa: E402

TITLES = """
axpy_occupancy KILOBYTES=0 UNROLL=1
axpy_occupancy KILOBYTES=0 UNROLL=4
axpy_occupancy KILOBYTES=110 UNROLL=1
axpy_occupancy KILOBYTES=220 UNROLL=4
broadcast_affine BLOCK=32 DIVIDE=0
broadcast_affine BLOCK=256 DIVIDE=1
cross_entropy ATOMIC=1 BLOCK=32
cumsum_block BLOCK=64 ITEMS=4
embedding LANES=4 WIDE=1
gelu EXACT=0 WIDE=1
gelu EXACT=1 WIDE=1
layer_norm BLOCK=128 ONE_SWEEP=0
matmul_blocked STEP=32 WORK=2
matmul_blocked STEP=32 WORK=8
matmul_naive BLOCK=256 BY_ROW=0
matmul_naive BLOCK=256 BY_ROW=1
matmul_spilled RESIDENT=1
matmul_spilled RESIDENT=6
matmul_tensor_cores STEP=16 WARP_TILES=1
matmul_tensor_cores STEP=64 WARP_TILES=4
matmul_tiled PAD=0 TILE=32
matmul_tiled PAD=1 TILE=32
max_pool PLANES=8 WIDTH=32
mse_atomics EACH=16 LEVEL=0
mse_atomics EACH=16 LEVEL=1
mse_atomics EACH=16 LEVEL=2
softmax_block BLOCK=64 PASSES=3
softmax_shared BLOCK=128
sum_all BLOCKS=33 WIDE=0
sum_all BLOCKS=264 WIDE=1
sum_columns_chunks CHUNK=64 LINES=2
sum_columns_strided BLOCK=512
sum_rows_thread WIDE=0
swish_branches WAYS=1
swish_branches WAYS=4
swish_branches WAYS=32
swish_runs RUN=8
transpose_naive ALONG_INPUT=0 WIDTH=32
transpose_naive ALONG_INPUT=1 WIDTH=8
transpose_naive ALONG_INPUT=1 WIDTH=32
transpose_tiled LINES=4 PAD=0
transpose_tiled LINES=4 PAD=1
""".strip().splitlines()


def kernel_titled(title: str) -> Kernel:
    return next(k for k in read_variants(FOLDER / f"{title.split(maxsplit=1)[0]}.cu") if k.title == title)


def modelled(device: EmulatedDevice, kernel: Kernel) -> Profile:
    binary = compile_candidate(kernel.task, kernel.candidate, device.spec.architecture)
    assert isinstance(binary, Binary), (kernel.title, binary)
    timer = ModelledTimer(device, kernel.task, ModuleBaseline(kernel.task, device, small=True))
    return timer.profiles([binary])[0]


def stored(kernel: Kernel, profile: Profile) -> dict[str, Any]:
    """A profile in few bytes: six digits, no sections."""
    kernels = [
        {
            "name": k.name,
            "grid": k.grid,
            "block": k.block,
            "metrics": [
                [m.name, m.unit, float(f"{m.value:.6g}") if isinstance(m.value, float) else m.value, m.tier]
                for m in k.metrics
            ],
        }
        for k in profile.kernels
    ]
    about = {"device": profile.device, "tier": profile.tier, "workload": profile.workload}
    return {"floor_bytes": floor_of(kernel.task).bytes, **about, "kernels": kernels}


def main() -> None:
    device = EmulatedDevice()
    found = {}
    for kernel in map(kernel_titled, TITLES):
        found[kernel.title] = stored(kernel, modelled(device, kernel))
    device.close()
    lines = [f"{json.dumps(title)}: {json.dumps(value)}" for title, value in sorted(found.items())]
    STORED.parent.mkdir(exist_ok=True)
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(found)} profiles in {STORED.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
