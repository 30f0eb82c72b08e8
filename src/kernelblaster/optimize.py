"""Makes one task faster: brings together a policy's candidates, the judge's verdicts, and a knowledge base
that learns.

    with open_searching("emulated") as judge, KnowledgeBase("kb.db") as knowledge:
        run = create_run(Path("runs"))      # a new folder under runs/, which records the search
        optimized = optimize(task, judge, knowledge, run, Search(seed=1))
        print(optimized.candidate.source, optimized.applied)

The search loop itself is in search/loop.py."""

from dataclasses import dataclass

from kernelblaster.errors import SearchStopped
from kernelblaster.judge.protocol import Judge
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.models.failures import BudgetSpent
from kernelblaster.policies.expert.policy import ExpertPolicy
from kernelblaster.policies.policy import Policy
from kernelblaster.records import Candidate, Evaluation, Step, Task
from kernelblaster.search.loop import MaicRl
from kernelblaster.search.quick import Quick
from kernelblaster.search.strategy import Best, Strategy, StrategyMaker, path_to
from kernelblaster.sessions.log import Watcher, unwatched
from kernelblaster.sessions.session import Session
from kernelblaster.sessions.settings import Search
from kernelblaster.store.run import Run
from kernelblaster.store.steering import STOPPED


@dataclass(frozen=True)
class Optimized:
    """Result of a search: the best `candidate` with its `evaluation`, and `first`, the evaluation of the
    first correct candidate. `applied` are the techniques that led from the first candidate to the best, and
    `steps` all steps that were tried. `stopped` says in words why the search was stopped early, because a
    budget for models was used up or a person asked for it (`by_person`); None if it was not."""

    candidate: Candidate
    evaluation: Evaluation
    first: Evaluation
    applied: tuple[str, ...]
    steps: list[Step]
    stopped: str | None = None
    by_person: bool = False


def optimize(
    task: Task,
    judge: Judge,
    knowledge: KnowledgeBase,
    run: Run,
    search: Search,
    policy: Policy | None = None,
    watcher: Watcher = unwatched,
    make: StrategyMaker | None = None,
) -> Optimized:
    """Searches for a faster candidate for the task, with the settings `search`; `judge` judges the
    candidates. Returns the best candidate with its evaluation, and all steps that were tried. `make` returns
    the strategy for a session. If `make` is None, the strategy is MAIC-RL, beginning with the first candidate
    that `policy` writes (None: the rule-based expert policy); or `Quick`, if `search.quick` is set. Steps are
    recorded in `run`, and `knowledge` learns from them. A run that was begun before is continued, and what it
    has recorded is not done again. `watcher` is called with progress. If a budget for model calls is used up
    or a person stops the search, returns the best so far, with `stopped` set; raises BudgetSpent or
    SearchStopped if no candidate is correct by then."""
    session = Session(task, judge, knowledge, run, search, watcher)
    strategy = _strategy(session, judge, policy, make)
    stopped, by_person = None, False
    try:
        best = strategy.run(task)
        about = {"ended": best.ended} if best.ended else {}
        run.conclude("finished", lambda: {"best": run.files.put(best.candidate.source), **about})
    except BudgetSpent as spent:
        run.append(STOPPED, why=str(spent))
        best, stopped = _best_so_far(session, strategy.steps, spent), str(spent)
    except SearchStopped as stop:
        best, stopped = _best_so_far(session, strategy.steps, stop), str(stop)
        by_person = True
    first = session.judging.first_correct
    found = (best.candidate, best.evaluation, first, best.applied, strategy.steps)
    return Optimized(*found, stopped=stopped, by_person=by_person)


def _strategy(session: Session, judge: Judge, policy: Policy | None, make: StrategyMaker | None) -> Strategy:
    """The strategy of a search: what `make` returns, the quick one if the search's settings ask for it, or
    MAIC-RL."""
    if make is not None:
        return make(session)
    if session.search.quick:
        return Quick(expert_for(judge), session)
    return MaicRl(policy or expert_for(judge), session)


def expert_for(judge: Judge) -> ExpertPolicy:
    """Returns the rule-based expert policy, which needs no language model, limited to techniques that the
    judge's device can run."""
    return ExpertPolicy(judge.device.spec, judge.device.modelled)


def _best_so_far(session: Session, steps: list[Step], stopped: BudgetSpent | SearchStopped) -> Best:
    """The fastest correct candidate of a search that was stopped by `stopped`, with the techniques of the
    `steps` that led to it. Raises `stopped` if no candidate is correct."""
    ranked = session.judging.ranked()
    if not ranked:
        raise stopped
    candidate, evaluation = ranked[0]
    return Best(candidate, evaluation, path_to(candidate.code, steps))
