"""Kernels whose nature is known by construction are named by it; a lower tier says less and nothing else."""

import json
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

from kernelblaster.devices.ncu import METRICS, QUICK_METRICS, parse
from kernelblaster.policies.expert.signals import gpu_of
from kernelblaster.policies.expert.states import ABOUT, choose_target, extract_states
from kernelblaster.records import KernelProfile, Metric, Profile, ProfilerAdvice
from kernelblaster.records.state import HEADROOM, Bottleneck, KernelState, State

HERE = Path(__file__).parent
NCU = HERE.parents[1] / "devices" / "data" / "ncu_details.csv"
# The kernel that takes most of the time, in words; what the file was written to show comes first.
MODELLED = {
    "axpy_occupancy KILOBYTES=0 UNROLL=1": "latency",
    "axpy_occupancy KILOBYTES=0 UNROLL=4": "memory-bandwidth",
    "axpy_occupancy KILOBYTES=110 UNROLL=1": "latency/low-occupancy+shared-memory-limited",
    "axpy_occupancy KILOBYTES=220 UNROLL=4": "latency/low-occupancy+shared-memory-limited",
    "broadcast_affine BLOCK=32 DIVIDE=0": "latency/small-blocks",
    "broadcast_affine BLOCK=256 DIVIDE=1": "instruction-issue/integer-pipe",
    "cross_entropy ATOMIC=1 BLOCK=32": "redundant-work",
    "cumsum_block BLOCK=64 ITEMS=4": "uncoalesced-access/l2-bandwidth",
    "embedding LANES=4 WIDE=1": "memory-bandwidth",
    "gelu EXACT=0 WIDE=1": "memory-bandwidth",
    "gelu EXACT=1 WIDE=1": "instruction-issue/fp64-pipe",
    "layer_norm BLOCK=128 ONE_SWEEP=0": "l2-bandwidth",
    "matmul_blocked STEP=32 WORK=2": "instruction-issue/load-store-pipe",
    "matmul_blocked STEP=32 WORK=8": "fp32-pipe/low-occupancy+register-limited",
    "matmul_naive BLOCK=256 BY_ROW=0": "l2-bandwidth",
    "matmul_naive BLOCK=256 BY_ROW=1": "uncoalesced-access/load-store-pipe+redundant-work",
    "matmul_spilled RESIDENT=1": "fp32-pipe/low-occupancy+register-limited",
    "matmul_spilled RESIDENT=6": "register-pressure/spills",
    "matmul_tensor_cores STEP=16 WARP_TILES=1": "instruction-issue/integer-pipe",
    "matmul_tensor_cores STEP=64 WARP_TILES=4": "register-pressure/low-occupancy",
    "matmul_tiled PAD=0 TILE=32": "bank-conflicts",
    "matmul_tiled PAD=1 TILE=32": "instruction-issue/load-store-pipe",
    "max_pool PLANES=8 WIDTH=32": "memory-bandwidth/uncoalesced-access",
    "mse_atomics EACH=16 LEVEL=0": "atomics",
    "mse_atomics EACH=16 LEVEL=1": "atomics",
    "mse_atomics EACH=16 LEVEL=2": "memory-bandwidth",
    "softmax_block BLOCK=64 PASSES=3": "redundant-work",
    "softmax_shared BLOCK=128": "latency/low-occupancy+shared-memory-limited",
    "sum_all BLOCKS=33 WIDE=0": "tail-effect",
    "sum_all BLOCKS=264 WIDE=1": "memory-bandwidth/low-occupancy",
    "sum_columns_chunks CHUNK=64 LINES=2": "tail-effect",
    "sum_columns_strided BLOCK=512": "uncoalesced-access/l2-bandwidth",
    "sum_rows_thread WIDE=0": "uncoalesced-access/tail-effect",
    "swish_branches WAYS=1": "latency",
    "swish_branches WAYS=4": "divergence/fp64-pipe",
    "swish_branches WAYS=32": "divergence/fp64-pipe",
    "swish_runs RUN=8": "uncoalesced-access/l2-bandwidth",
    "transpose_naive ALONG_INPUT=0 WIDTH=32": "uncoalesced-access/load-store-pipe",
    "transpose_naive ALONG_INPUT=1 WIDTH=8": "uncoalesced-access/l2-bandwidth",
    "transpose_naive ALONG_INPUT=1 WIDTH=32": "uncoalesced-access/l2-bandwidth",
    "transpose_tiled LINES=4 PAD=0": "bank-conflicts",
    "transpose_tiled LINES=4 PAD=1": "memory-bandwidth/integer-pipe",
}
STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
LOADS = "l1tex__t_{}_pipe_lsu_mem_global_op_ld.sum"


@cache
def modelled(title: str) -> tuple[Profile, int]:
    """A recorded profile, and the floor of its task in bytes."""
    about = json.loads((HERE / "data" / "modelled_profiles.json").read_text())[title]
    kernels = tuple(
        KernelProfile(
            name=k["name"],
            grid=k["grid"],
            block=k["block"],
            metrics=tuple(Metric(name=n, unit=u, value=v, tier=t) for n, u, v, t in k["metrics"]),
        )
        for k in about["kernels"]
    )
    profile = Profile(device=about["device"], tier=about["tier"], workload=about["workload"], kernels=kernels)
    return profile, about["floor_bytes"]


def main_state(states: tuple[KernelState, ...]) -> State:
    return max(states, key=lambda s: s.share).state


def measured(tier="ncu", advice=(), grid=(8192, 1, 1), block=(256, 1, 1), **values) -> Profile:
    """A made-up profile of one kernel that takes 100 us; `values` are percents, or pairs with a unit."""
    names = {"dram": "DRAM Throughput", "l2": "L2 Cache Throughput", "l1": "L1/TEX Cache Throughput"}
    names |= {"issue": "Issue Slots Busy", "occupancy": "Achieved Occupancy"}
    metrics = [Metric(name="Duration", unit="us", value=values.pop("duration", 100.0), tier=tier)]
    for name, value in values.items():
        number, unit = value if isinstance(value, tuple) else (value, "%")
        metrics.append(Metric(name=names.get(name, name), unit=unit, value=float(number), tier=tier))
    kernel = KernelProfile(name="k", grid=grid, block=block, metrics=tuple(metrics), advice=advice)
    return Profile(device="NVIDIA H200", tier=tier, workload="primary", kernels=(kernel,))


def said(message: str) -> tuple[ProfilerAdvice, ...]:
    return (ProfilerAdvice(rule="rule", section="section", message=message),)


def only(profile: Profile, **about) -> State:
    (found,) = extract_states(profile, **about)
    return found.state


@pytest.mark.parametrize(("title", "name"), MODELLED.items(), ids=lambda value: str(value).replace(" ", "-"))
def test_modelled_kernels_are_what_they_were_written_to_be(title, name):
    profile, floor_bytes = modelled(title)
    assert main_state(extract_states(profile, floor_bytes)).name == name


def test_profiles_of_kernels_cover_nearly_every_bottleneck():
    found = {s.state.primary for title in MODELLED for s in extract_states(*modelled(title))}
    assert set(get_args(Bottleneck)) - found == {"tensor-pipe", "barriers"}
    assert set(ABOUT) == set(get_args(Bottleneck))


def test_the_recorded_profiles_are_those_of_this_model(monkeypatch, compiler):
    monkeypatch.syspath_prepend(str(HERE))
    import record_states

    from kernelblaster.devices.emulated import EmulatedDevice

    assert sorted(MODELLED) == sorted(record_states.TITLES)
    device = EmulatedDevice()
    for title in ("transpose_tiled LINES=4 PAD=0", "mse_atomics EACH=16 LEVEL=0"):
        now = record_states.modelled(device, record_states.kernel_titled(title))
        states = extract_states(now, modelled(title)[1])
        assert main_state(states).name == MODELLED[title]
    device.close()


def test_a_real_softmax_issues_too_many_instructions():
    kernels = parse(NCU.read_text())
    profile = Profile(device="NVIDIA H200", tier="ncu", workload="primary", kernels=(kernels[0],))
    state = only(profile, floor_bytes=2 * 8192 * 2048 * 4)
    assert state.name == "instruction-issue/l2-bandwidth"  # its advice: issue slots busy, FMA at 36 %
    assert state.metrics["dram"] == pytest.approx(0.5662)
    assert state.metrics["fp32_pipe"] == pytest.approx(0.368)
    assert state.metrics["excess_access"] == 0  # four sectors for each request of four bytes a lane


@pytest.mark.parametrize(
    ("profile", "name"),
    [
        (measured(dram=20, issue=70, advice=said("Tensor (FP) is the highest-utilized pipeline (81.0%) ...")),
         "tensor-pipe"),
        (measured(dram=20, issue=85, advice=said("FMA is the highest-utilized pipeline (80.0%) ...")),
         "fp32-pipe"),
        (measured(dram=30, issue=20, **{
            STALLED.format("barrier"): (9.0, ""), "Warp Cycles Per Issued Instruction": (20.0, "cycle"),
        }), "barriers"),
        (measured(dram=30, l2=70, **{
            "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum": (800.0, ""),
            LOADS.format("requests"): (200.0, ""),
        }), "atomics"),
        (measured(dram=30, l2=80, advice=said(
            "This kernel has uncoalesced global accesses resulting in a total of 7 excessive sectors "
            "(75% of the total 9 sectors)."
        )), "uncoalesced-access/l2-bandwidth"),
        (measured(dram=30, issue=20, occupancy=20, **{
            "Block Limit Registers": (1.0, "block"), "Block Limit Shared Mem": (28.0, "block"),
            "Block Limit Warps": (8.0, "block"), "Block Limit SM": (32.0, "block"),
        }), "register-pressure/low-occupancy"),
        (measured(dram=30, issue=20, **{
            "Waves Per SM": (1.1, ""), "# SMs": (132.0, "SM"),
        }), "tail-effect"),
    ],
)  # fmt: skip
def test_what_ncu_would_say_of_others(profile, name):
    assert only(profile).name == name


def test_vector_accesses_are_not_uncoalesced_unless_their_width_says_so():
    profile = measured(
        dram=30, l2=80, **{LOADS.format("requests"): (100.0, ""), LOADS.format("sectors"): (1600.0, "sector")}
    )
    assert only(profile).primary == "l2-bandwidth"
    assert only(profile, access_bytes=16).primary == "l2-bandwidth"
    assert only(profile, access_bytes=4).primary == "uncoalesced-access"


def test_a_busy_pipe_on_few_multiprocessors_is_not_what_bounds():
    busy = {"Pipe fp64": 80, "Waves Per SM": (0.03, "")}
    few = measured(tier="modelled", grid=(33, 1, 1), dram=5, issue=50, **busy)
    assert only(few).name == "tail-effect"
    assert only(measured(tier="modelled", dram=5, issue=50, **busy)).name == "instruction-issue/fp64-pipe"


def test_a_long_copy_by_the_driver_is_named_from_its_duration():
    copy = measured(tier="modelled")
    (kernel,) = copy.kernels
    renamed = copy.model_copy(update={"kernels": (kernel.model_copy(update={"name": "[memset]"}),)})
    assert only(renamed).name == "memory-bandwidth/copy"


def test_idle_lanes_without_a_divergent_branch_are_not_divergence():
    few = {"smsp__thread_inst_executed_per_inst_executed.ratio": (8.0, "")}
    assert (
        only(measured(issue=80, dram=5, **few, **{"Branch Efficiency": 100})).primary == "instruction-issue"
    )
    assert only(measured(issue=80, dram=5, **few, **{"Branch Efficiency": 60})).primary == "divergence"


def test_idle_lanes_of_full_warps_are_divergence_where_branches_were_not_counted():
    """As in quick and usual profiles."""
    lanes = "smsp__thread_inst_executed_per_inst_executed.ratio"
    assert lanes in METRICS and "Branch Efficiency" not in QUICK_METRICS.values()
    quick = {"issue": 80, "dram": 5, lanes: (8.0, "")}
    assert only(measured(**quick)).primary == "divergence"
    assert only(measured(**quick | {lanes: (30.0, "")})).primary == "instruction-issue"
    assert only(measured(**quick, block=(8, 1, 1))).primary == "instruction-issue"  # no lane idles
    assert only(measured(**quick | {lanes: (3.0, "")}, block=(8, 1, 1))).primary == "divergence"


LOWER = {"Duration", "Dynamic Shared Memory Per Block"}


@pytest.mark.parametrize("title", MODELLED)
def test_a_lower_tier_says_less_and_nothing_else(title):
    profile, floor_bytes = modelled(title)
    kernels = tuple(
        k.model_copy(update={"metrics": tuple(m for m in k.metrics if m.name in LOWER or m.tier == "ptxas")})
        for k in profile.kernels
    )
    lower = profile.model_copy(update={"tier": "activity", "kernels": kernels})
    whole = extract_states(profile, floor_bytes)
    for known, full in zip(extract_states(lower, floor_bytes), whole, strict=True):
        words = {full.state.primary, *full.state.secondary}
        if known.state.primary == "launch-overhead":
            assert full.state == known.state or full.state.primary == "launch-overhead"
            continue
        assert known.share == full.share
        assert known.state.primary in words | {"latency"}
        assert "unmeasured" in known.state.secondary or known.kernel.startswith("[")
        assert set(known.state.metrics) <= set(full.state.metrics)


def test_durations_alone_prove_spills_few_blocks_and_bandwidth():
    spilled = measured(tier="activity", **{"ptxas Spill Stores": (200, "byte/thread")})
    assert only(spilled).name == "register-pressure/spills+unmeasured"
    few = measured(tier="activity", grid=(20, 1, 1), **{"ptxas Theoretical Occupancy": 100})
    assert only(few).name == "tail-effect/unmeasured"
    assert only(measured(tier="activity"), floor_bytes=400_000_000).name == "memory-bandwidth/unmeasured"
    assert only(measured(tier="activity"), floor_bytes=4_000_000).name == "latency/unmeasured"
    assert HEADROOM not in only(measured(tier="activity")).metrics


def test_counters_of_the_ptx_machine_name_strong_evidence_only():
    def counted(**values):
        metrics = tuple(Metric(name=n, unit="", value=v, tier="emulated") for n, v in values.items())
        kernel = KernelProfile(name="k", grid=(64, 1, 1), block=(256, 1, 1), metrics=metrics)
        return Profile(
            device="PTX machine (NVIDIA H200)", tier="emulated", workload="small", kernels=(kernel,)
        )

    quiet = {"Warp Instructions": 1000.0, "Active Lanes": 32.0, "Divergent Branches": 0.0}
    assert only(counted(**quiet)).name == "latency/unmeasured"
    strided = {**quiet, "Load Sectors Per Request": 32.0}
    assert only(counted(**strided)).primary == "uncoalesced-access"
    conflicts = {**quiet, "Shared Bank Conflicts": 3000.0}
    assert only(counted(**conflicts)).primary == "bank-conflicts"
    branches = {**quiet, "Active Lanes": 9.0, "Divergent Branches": 100.0}
    assert only(counted(**branches)).primary == "divergence"


def test_many_small_launches_and_traffic_between_kernels_show_in_all_kernels_together():
    small = measured(duration=3.0, dram=1)
    call = small.model_copy(update={"kernels": small.kernels * 5})
    assert {s.state.name for s in extract_states(call)} == {"launch-overhead/many-launches"}
    assert [s.state.name for s in extract_states(small)] == ["launch-overhead"]
    chain = measured(
        dram=85, **{"dram__bytes_read.sum": (1e8, "byte"), "dram__bytes_write.sum": (1e8, "byte")}
    )
    call = chain.model_copy(update={"kernels": chain.kernels * 3})
    names = {s.state.name for s in extract_states(call, floor_bytes=200_000_000)}
    assert names == {"memory-bandwidth/intermediate-traffic"}


def test_the_target_is_worth_most_to_the_call_not_the_longest():
    profile, floor_bytes = modelled("sum_columns_chunks CHUNK=64 LINES=2")
    long, short = profile.kernels
    states = extract_states(profile.model_copy(update={"kernels": (long, long, short)}), floor_bytes)
    assert sum(s.share for s in states) == pytest.approx(1)
    target = choose_target(states)
    assert target is not None and target.position == 2  # the others are at the rate of device memory
    gain = states[2].share * states[2].state.metrics[HEADROOM]
    assert target.call_speedup == pytest.approx(1 / (1 - gain))


def test_a_kernel_of_unknown_bound_counts_whole_and_promises_nothing():
    states = extract_states(measured(tier="activity"))
    target = choose_target(states)
    assert target is not None and target.kernel == states[0] and target.call_speedup is None
    assert choose_target(()) is None


def test_the_gpu_is_found_in_a_device_s_name():
    spec = gpu_of("PTX machine (NVIDIA H200)")
    assert spec is not None and spec.name == "h200"
    assert gpu_of("a device of tests") is None
    found = {name: gpu_of(f"PTX machine (NVIDIA {name})") for name in ("L4", "L40", "L40S")}
    assert {name: spec and spec.name for name, spec in found.items()} == {
        "L4": "l4",
        "L40": None,
        "L40S": "l40s",
    }
