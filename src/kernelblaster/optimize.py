"""Make one task faster: a policy's candidates, the judge's verdicts, and a knowledge base that learns.

with open_searching("emulated") as judge, KnowledgeBase("kb.db") as knowledge:
    optimized = optimize(task, judge, knowledge, create_run(Path("runs")), Search(seed=1))

The loop itself is search/loop.py.
"""

from dataclasses import dataclass

from kernelblaster.judge.protocol import Judge
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.models.failures import BudgetSpent
from kernelblaster.policies.expert.policy import ExpertPolicy
from kernelblaster.policies.policy import Policy
from kernelblaster.records import Candidate, Evaluation, Step, Task
from kernelblaster.search.loop import MaicRl
from kernelblaster.search.strategy import Best, Strategy, StrategyMaker, path_to
from kernelblaster.sessions.log import Watcher, unwatched
from kernelblaster.sessions.session import Session
from kernelblaster.sessions.settings import Search
from kernelblaster.store.run import Run


@dataclass(frozen=True)
class Optimized:
    """Result of a search. `candidate` is the best one and `evaluation` its verdict; `first` is the verdict of
    the first correct candidate; `applied` are the techniques on the path from that to the best. `stopped` is
    the reason if the search ended early, else None."""

    candidate: Candidate
    evaluation: Evaluation
    first: Evaluation
    applied: tuple[str, ...]
    steps: list[Step]
    stopped: str | None = None


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
    """Search from the policy's first candidate: by MAIC-RL, or by the strategy that `make` returns. A run
    that was begun before is continued; what it recorded is not done again. If a budget for models is used up,
    the best so far is returned with `stopped` set, and the run can be continued with a larger one."""
    session = Session(task, judge, knowledge, run, search, watcher)
    strategy: Strategy = make(session) if make else MaicRl(policy or expert_for(judge), session)
    stopped = None
    try:
        best = strategy.run(task)
        run.once("finished", "end", lambda: {"best": run.files.put(best.candidate.source)})
    except BudgetSpent as spent:
        best, stopped = _best_so_far(session, strategy.steps, spent), str(spent)
    first = session.judging.first_correct
    return Optimized(best.candidate, best.evaluation, first, best.applied, strategy.steps, stopped)


def expert_for(judge: Judge) -> ExpertPolicy:
    """The expert policy, limited to techniques that the judge's device can run."""
    return ExpertPolicy(judge.device.spec.architecture, judge.device.modelled)


def _best_so_far(session: Session, steps: list[Step], stopped: BudgetSpent) -> Best:
    """The fastest correct candidate when a search was stopped; raises `stopped` if there is none."""
    ranked = session.judging.ranked()
    if not ranked:
        raise stopped
    candidate, evaluation = ranked[0]
    return Best(candidate, evaluation, path_to(candidate.code, steps))
