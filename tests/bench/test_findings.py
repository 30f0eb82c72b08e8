"""Studies: what they conclude from results that are known, and what the paper's claims are held to."""

from pathlib import Path

import pytest

from kernelblaster.bench.ablation import Ablation, AblationPlan
from kernelblaster.bench.findings import summarize_study, verdict_on
from kernelblaster.bench.jobs import NOTHING, PolicyName, Setup, result_of
from kernelblaster.bench.metrics import Interval
from kernelblaster.bench.studies import STUDIES, Claim, studies_named
from kernelblaster.bench.suite import Entry
from kernelblaster.errors import KernelBlasterError
from kernelblaster.report.ablation_page import ablation_markdown, ablation_page
from kernelblaster.sessions.settings import Search

BUDGET = 8


def ablation(
    folder: Path,
    studies: tuple[str, ...] = ("memory",),
    tasks: int = 12,
    policy: PolicyName = "expert",
    rollouts: int = 2,
) -> Ablation:
    entries = tuple(Entry(name=f"s/t{n}", path="", group="s", number=n) for n in range(tasks))
    search = Search(evaluations=BUDGET, rollouts=rollouts)
    setup = Setup(policy=policy, device="emulated", gpu="h200", search=search, knowledge="")
    plan = AblationPlan(studies=studies, suites=("s",), entries=entries, setup=setup, seeds=(0, 1))
    return Ablation.open(folder, plan)


def fill(
    opened: Ablation,
    judged: dict[str, tuple[float | None, ...]],
    tokens: dict[str, int] | None = None,
    seeds: tuple[int, ...] = (0, 1),
) -> None:
    """The same speedups, and tokens, for every task and seed of an arm."""
    study = opened.studies[0]
    for entry in opened.plan.tasks_of(study):
        for arm in study.arms:
            for seed in seeds:
                job = opened.job(study, arm, entry, seed)
                gain = max(speedup for speedup in judged[arm.name] if speedup) / 0.5
                spent = NOTHING.model_copy(update={"tokens": (tokens or {}).get(arm.name, 0)})
                fields = {"judged": judged[arm.name], "gain": gain, "spent": spent}
                result = result_of(job, "valid").model_copy(update=fields)
                opened._run.once("result", job.key, lambda r=result: r.model_dump(mode="json"))  # type: ignore[misc]


def test_fewer_evaluations_are_found_and_said(tmp_path: Path) -> None:
    with ablation(tmp_path / "a") as opened:
        slow = (0.5, None, 0.6, 0.7, 2.0)
        fill(opened, {"empty": slow, "trained": (0.5, 2.0), "no memory": slow})
        found = summarize_study(opened, opened.studies[0])
        assert (found.tasks, found.seeds, found.left_out) == (6, 2, {})
        empty, trained, _ = found.arms
        assert empty.evaluations is not None and empty.evaluations.estimate == pytest.approx(5)
        assert trained.evaluations is not None and trained.evaluations.estimate == pytest.approx(2)
        assert empty.gain == pytest.approx((4.0, 4.0, 4.0))
        assert [point.estimate for point in trained.curve] == pytest.approx([0.25, *[1.0] * (BUDGET - 1)])
        fewer, more, silent = found.answers
        assert fewer.verdict == "agrees" and "0.400" in fewer.sentence
        assert more.verdict == "undecided" and more.ratio is not None
        assert silent.verdict == "no claim" and "no claim about it" in silent.sentence
        text, page = ablation_markdown(opened), ablation_page(opened)
    assert "agrees with the paper" in text and "5.0 (5.0 to 5.0)" in text
    assert 'data-figure="memory-curve"' in page


@pytest.mark.parametrize(
    ("best", "words"),
    [(1.2, "agrees with the paper in its direction, by less:"), (3.0, "agrees with the paper, by more:")],
)
def test_how_much_the_paper_found_is_said_too(tmp_path: Path, best: float, words: str) -> None:
    with ablation(tmp_path / "a") as opened:
        fill(opened, {"empty": (0.5, 1.0), "trained": (0.5, best), "no memory": (0.5, 1.0)})
        _, more, _ = summarize_study(opened, opened.studies[0]).answers
    assert more.verdict == "agrees" and words in more.sentence


def test_a_seed_that_was_not_searched_to_the_end_is_left_out(tmp_path: Path) -> None:
    with ablation(tmp_path / "a") as opened:
        fill(opened, {"empty": (0.5, 1.0), "trained": (0.5, 2.0), "no memory": (0.5, 1.0)}, seeds=(0,))
        job = opened.job(opened.studies[0], opened.studies[0].arms[0], opened.plan.halves[1][0], 1)
        begun = result_of(job, "valid").model_copy(update={"judged": (9.0,), "gain": 1.0})
        opened._run.once("result", job.key, lambda: begun.model_dump(mode="json"))
        found = summarize_study(opened, opened.studies[0])
        text = ablation_markdown(opened)
    assert (found.tasks, found.seeds, found.left_out) == (6, 1, {})
    assert found.arms[0].searches == 6 and "6 tasks with 1 of 2 seeds" in text


def test_arms_that_search_alike_are_searched_once(tmp_path: Path) -> None:
    with ablation(tmp_path / "a", ("memory", "breadth", "selection"), rollouts=1) as opened:
        fill(opened, {"empty": (0.5, 1.0), "trained": (0.5, 2.0), "no memory": (0.5, 1.0)})
        jobs = opened.jobs
        breadth = [job for job in jobs if job.arm == "breadth: 1 rollouts"]
        for job in breadth:
            result = result_of(job, "valid").model_copy(update={"gain": 2.0})
            opened._run.once("result", job.key, lambda r=result: r.model_dump(mode="json"))  # type: ignore[misc]
        heard: list[str] = []
        opened._share(jobs, opened._recording(lambda news: heard.append(news.job)))
        shared = [opened.results[key] for key in heard]
    assert {result.arm for result in shared} == {"selection: weighted, squared"} and len(shared) == len(
        breadth
    )
    assert all(result.gain == 2.0 and result.job.startswith(result.arm) for result in shared)


def test_tokens_are_compared_where_all_are_known(tmp_path: Path) -> None:
    arms = ("full", "no memory", "cycles only", "minimal")
    judged: dict[str, tuple[float | None, ...]] = dict.fromkeys(arms, (1.0, 2.0))
    spent = dict(zip(arms, (100, 150, 200, 250), strict=True))
    for name, tokens in (("a", spent), ("b", {**spent, "full": 0})):
        with ablation(tmp_path / name, ("agents",), policy="llm") as opened:
            fill(opened, judged, tokens)
            found = summarize_study(opened, opened.studies[0])
            text = ablation_markdown(opened)
        claimed = found.answers[-1]
        if name == "a":
            assert claimed.verdict == "agrees" and "tokens: 0.400 (0.400 to 0.400)" in claimed.sentence
            assert "tokens a search" in text and "250 (250 to 250)" in text
        else:
            assert claimed.verdict == "undecided" and "no tokens were counted" in claimed.sentence
            assert found.arms[0].tokens is None


def test_a_search_that_never_gets_there_counts_with_its_budget(tmp_path: Path) -> None:
    with ablation(tmp_path / "a") as opened:
        fill(opened, {"empty": (0.5, 1.0), "trained": (0.5, 2.0), "no memory": (0.5, 1.0)})
        empty = summarize_study(opened, opened.studies[0]).arms[0]
    assert empty.missed == 12
    assert empty.evaluations is not None and empty.evaluations.estimate == pytest.approx(BUDGET)


def test_a_task_that_an_arm_lacks_is_left_out_and_named(tmp_path: Path) -> None:
    with ablation(tmp_path / "a") as opened:
        fill(opened, {"empty": (1.0,), "trained": (1.0,), "no memory": (1.0,)})
        study = opened.studies[0]
        gone = opened.plan.tasks_of(study)[0]
        events = [e for e in opened._run.events if e.key != opened.job(study, study.arms[0], gone, 0).key]
        opened._run.events[:] = events
        found = summarize_study(opened, study)
        assert found.tasks == 5 and found.left_out == {gone.name: "not searched yet"}
        assert "not searched yet" in ablation_markdown(opened)


def test_a_few_tasks_decide_nothing(tmp_path: Path) -> None:
    with ablation(tmp_path / "a", tasks=8) as opened:
        fill(opened, {"empty": (0.5, 1.0, 2.0), "trained": (0.5, 2.0), "no memory": (0.5,)})
        answer = summarize_study(opened, opened.studies[0]).answers[0]
    assert answer.verdict == "undecided" and "4 tasks are too few" in answer.sentence


def test_nothing_searched_is_no_finding(tmp_path: Path) -> None:
    with ablation(tmp_path / "a") as opened:
        found = summarize_study(opened, opened.studies[0])
        assert found.tasks == 0 and {answer.verdict for answer in found.answers} == {"undecided"}
        assert ablation_page(opened)


@pytest.mark.parametrize(
    ("direction", "low", "high", "verdict"),
    [
        ("more", 1.1, 1.3, "agrees"),
        ("more", 0.9, 1.3, "undecided"),
        ("more", 0.7, 0.9, "contradicts"),
        ("fewer", 0.5, 0.9, "agrees"),
        ("fewer", 1.2, 1.4, "contradicts"),
        ("little", 0.98, 1.05, "agrees"),
        ("little", 1.0, 1.2, "undecided"),
        ("little", 1.2, 1.5, "contradicts"),
    ],
)
def test_a_claim_is_held_to_the_interval(direction: str, low: float, high: float, verdict: str) -> None:
    claim = Claim("a", "b", "best", direction, "so it says")  # type: ignore[arg-type]
    assert verdict_on(claim, Interval(low, (low + high) / 2, high)) == verdict


def test_every_claim_is_about_arms_that_there_are() -> None:
    for study in STUDIES:
        names = {arm.name for arm in study.arms}
        assert all({claim.arm, claim.beside} <= names for claim in study.claims), study.name
        for arm in study.arms:
            Search().model_copy(update=arm.settings)
            assert set(arm.settings) <= set(Search.model_fields)


def test_unknown_studies_and_transfer_without_another_gpu_are_said(tmp_path: Path) -> None:
    with pytest.raises(KernelBlasterError, match="no such study"):
        studies_named(["memories"])
    with pytest.raises(KernelBlasterError, match="elsewhere"):
        ablation(tmp_path / "a", ("transfer",))
    with pytest.raises(KernelBlasterError, match="give --model"):
        ablation(tmp_path / "a", ("memory", "agents"))
    assert not (tmp_path / "a").exists()


def test_every_trajectory_has_a_budget_of_its_own(tmp_path: Path) -> None:
    with ablation(tmp_path / "a", ("breadth",)) as opened:
        budgets = {job.arm: job.setup.search.evaluations for job in opened.jobs}
        assert budgets == {f"breadth: {count} rollouts": count * BUDGET for count in (1, 2, 4, 8)}
        judged: tuple[float | None, ...] = (0.5, *[None] * 3 * BUDGET, 1.0)
        fill(opened, {f"{count} rollouts": judged[: count * BUDGET] for count in (1, 2, 4, 8)})
        found = summarize_study(opened, opened.studies[0])
        assert [arm.missed for arm in found.arms] == [12 * 2, 12 * 2, 0, 0]
        counted = [arm.evaluations.estimate for arm in found.arms if arm.evaluations]
        assert counted == pytest.approx([BUDGET, 2 * BUDGET, 3 * BUDGET + 2, 3 * BUDGET + 2])
