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
    """The best candidate with its verdict, the first correct one's verdict, and the techniques between
    them. `stopped` says why the search did not come to its end."""

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
    """Search from the policy's first candidate by MAIC-RL, or by another strategy. A run that was begun
    before is continued: what it recorded is not done again. Where a budget for models is spent, the best so
    far is returned, and the run can be continued with a larger one."""
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
    """The expert policy with the techniques that a device can run."""
    return ExpertPolicy(judge.device.spec.architecture, judge.device.modelled)


def _best_so_far(session: Session, steps: list[Step], stopped: BudgetSpent) -> Best:
    """The fastest candidate when a search was stopped. Raises what stopped it where there is none."""
    ranked = session.judging.ranked()
    if not ranked:
        raise stopped
    candidate, evaluation = ranked[0]
    return Best(candidate, evaluation, path_to(candidate.code, steps))
