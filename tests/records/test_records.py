import pytest
from pydantic import TypeAdapter, ValidationError

from kernelblaster.records import Accepted, Candidate, Outcome, Rejected, Tensor, TimedOut, Workload
from kernelblaster.records.outcome import LONGEST_WHY, Speedup, why
from kernelblaster.records.profile import MOST_KERNELS, KernelProfile, Metric, Profile


def test_outcomes_survive_json_as_what_they_were() -> None:
    outcomes = [
        Accepted(speedup=Speedup(estimate=1.5, low=1.4, high=1.6, confidence=0.99)),
        Rejected(reason="forbidden-import", evidence="cudaMalloc"),
        TimedOut(stage="verify", limit_s=10.0),
    ]
    adapter = TypeAdapter(Outcome)
    for outcome in outcomes:
        assert adapter.validate_json(outcome.model_dump_json()) == outcome


def test_records_are_frozen_and_refuse_unknown_fields() -> None:
    candidate = Candidate(source="x")
    with pytest.raises(ValidationError):
        candidate.source = "y"  # type: ignore[misc]
    with pytest.raises(ValidationError):
        Candidate(source="x", colour="red")  # type: ignore[call-arg]


def test_identity_is_the_content() -> None:
    one, same, other = Candidate(source="x"), Candidate(source="x"), Candidate(source="y")
    assert one.digest == same.digest != other.digest
    assert one.with_defines({"B": 2}).digest != one.digest


def test_a_workload_gives_shapes_and_bytes() -> None:
    tensor = Tensor(name="x", role="input", dtype="float16", dims=("a", "b"))
    workload = Workload(name="primary", sizes={"a": 3, "b": 5})
    assert workload.shape(tensor) == (3, 5)
    assert workload.bytes(tensor) == 30


def test_a_profile_of_thousands_of_launches_is_shortened() -> None:
    def launch(us: float) -> KernelProfile:
        metric = Metric(name="Duration", unit="us", value=us, tier="modelled")
        return KernelProfile(name="k", grid=(1, 1, 1), block=(32, 1, 1), metrics=(metric,))

    kernels = tuple(launch(1.0 + (n == 700)) for n in range(1000))
    found = Profile(device="d", tier="modelled", workload="primary", kernels=kernels).shortened()
    assert len(found.kernels) == MOST_KERNELS + 1 and found.kernels[-2].duration_us == 2.0
    assert sum(kernel.duration_us or 0 for kernel in found.kernels) == 1001
    assert found.kernels[-1].name == "[744 further launches]" and found.shortened().kernels[-2].duration_us


def test_why_a_candidate_failed_is_one_line() -> None:
    finding = "uninitialized in k, line 3: nothing has written it"
    assert why(Rejected(reason="uninitialized", evidence=f"small workload\n{finding}\nmore")) == finding
    assert why(Rejected(reason="forbidden-import", evidence="cudaMalloc")) == "forbidden-import: cudaMalloc"
    assert why(TimedOut(stage="verify", limit_s=20)) == "no answer within 20 s (verify)"
    long = why(Rejected(reason="race", evidence="x" * 900))
    assert len(long) == LONGEST_WHY and long.endswith("...")
