"""What a bench does: jobs, each the search of one task, and what came of each."""

from pathlib import Path
from typing import Literal

from kernelblaster.bench.metrics import Cost
from kernelblaster.bench.suite import Entry
from kernelblaster.models.choice import ModelChoice
from kernelblaster.records.outcome import Speedup
from kernelblaster.records.record import Record
from kernelblaster.records.signature import Dtype
from kernelblaster.search.model_use import ModelUse
from kernelblaster.search.names import REMEMBERS, StrategyName
from kernelblaster.sessions.settings import Search

PolicyName = Literal["expert", "llm"]
DIED = "Died"  # of a measurement whose process ended
INITIAL = "initial"  # the baseline that is the policy's first, naive candidate

Status = Literal["valid", "invalid", "failed", "uncovered", "unfit", "broken", "died", "unfinished"]
"""`valid`: correct, when judged afresh too. `invalid`: found by the search, but not correct afresh.
`failed`: the search ended without a candidate. `uncovered`: the policy has no kernels for its operators.
`unfit`: the reference cannot be scored. `broken`: the file is no task. `died`: its code ended the process in
which it ran, twice. `unfinished`: not searched yet."""


class Setup(Record):
    """How tasks are searched. `knowledge` is a knowledge base that all searches read and teach; if they
    go `alone`, each has a copy of its own. `search.seed` is replaced by each job's own seed. Where the
    policy is `llm`, `models` take part, in these `roles`."""

    policy: PolicyName = "expert"
    strategy: StrategyName = "maic-rl"
    models: ModelChoice = ModelChoice()
    roles: tuple[str, ...] = ()
    device: Literal["cuda", "emulated"]
    gpu: str | None = None
    dtype: Dtype | None = None  # what tasks are cast to; None: their own types
    search: Search
    knowledge: str
    alone: bool = False

    @property
    def model_use(self) -> ModelUse | None:
        """How a model takes part; None: it does not."""
        if self.policy == "expert":
            return None
        return ModelUse(choice=self.models, roles=self.roles, strategy=self.strategy)

    def asking(self, model_use: ModelUse | None) -> "Setup":
        """With a model that takes part, if one does."""
        if model_use is None:
            return self
        asked = {"models": model_use.choice, "roles": model_use.roles, "strategy": model_use.strategy}
        return self.model_copy(update={"policy": "llm", **asked})

    @property
    def model(self) -> str | None:
        """Who answers, in words; None: nobody is asked."""
        if self.policy == "expert":
            return None
        given = self.models
        return given.model or (f"replay:{given.replay}" if given.replay else ", ".join(given.roles))

    @property
    def remembers(self) -> bool:
        return self.strategy in REMEMBERS


class Job(Record):
    """One search of one task. `arm` names the setup among those that are compared."""

    arm: str
    entry: Entry
    seed: int
    setup: Setup

    @property
    def key(self) -> str:
        return f"{self.arm}/{self.entry.name}/{self.seed}"

    @property
    def asks(self) -> str:
        """The same for jobs that search alike, whatever their arms are called."""
        return self.digest_without("arm")

    @property
    def file_name(self) -> str:
        """The key as the name of a file."""
        return self.key.replace("/", "-").replace(":", "-")

    @property
    def model_use(self) -> ModelUse | None:
        """As in the setup; recordings are kept apart, in a folder for each job."""
        found = self.setup.model_use
        if found is None:
            return None
        choice = found.choice
        places = {"record": choice.record, "replay": choice.replay}
        own = {name: str(Path(place) / self.file_name) for name, place in places.items() if place}
        return found.model_copy(update={"choice": choice.model_copy(update=own)})


class Spent(Record):
    """`Cost` as a record."""

    evaluations: int
    device_seconds: float
    seconds: float
    tokens: int = 0
    usd: float | None = 0.0

    @property
    def cost(self) -> Cost:
        return Cost(self.evaluations, self.device_seconds, self.seconds, self.tokens, self.usd)


NOTHING = Spent(evaluations=0, device_seconds=0.0, seconds=0.0)


class JobResult(Record):
    """What a search came to. Times are in microseconds, `gain` is over the first candidate; None where
    there is no candidate. `judged` are the speedups over eager in the order in which they were judged,
    None for each failure, those in review among them. The `reason` of a valid one says what ended it
    early, if something did."""

    job: str
    arm: str
    task: str
    group: str
    seed: int
    status: Status
    reason: str = ""
    run: str | None = None
    device: str | None = None
    modelled: bool = False
    first_us: float | None = None
    best_us: float | None = None
    baseline_us: float | None = None
    floor_us: float | None = None
    gain: float | None = None
    applied: tuple[str, ...] = ()
    judged: tuple[float | None, ...] = ()
    spent: Spent = NOTHING


class Measured(Record):
    """The best candidate beside one baseline, judged afresh. `outcome` is the kind; no `speedup`: it was
    not correct, and `reason` says what was wrong, or the baseline itself does not run (`absent`)."""

    job: str
    baseline: str
    outcome: str
    reason: str = ""
    speedup: Speedup | None = None
    us: float | None = None
    baseline_us: float | None = None
    floor_us: float | None = None
    absent: bool = False


def result_of(job: Job, status: Status, reason: str = "") -> JobResult:
    """A result without a candidate."""
    return JobResult(
        job=job.key,
        arm=job.arm,
        task=job.entry.name,
        group=job.entry.group,
        seed=job.seed,
        status=status,
        reason=reason,
    )
