"""Jobs of a bench, each the search of one task with one seed, and their results."""

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
"""`valid`: correct, also in the final measurement. `invalid`: found by the search, but not correct then.
`failed`: the search ended without a candidate. `uncovered`: the policy has no kernels for its operators.
`unfit`: the reference cannot be scored. `broken`: the file is no task. `died`: its code ended the process in
which it ran, twice. `unfinished`: not searched yet."""


class Setup(Record):
    """How tasks are searched; the same for all searches of a bench, or of one arm of an ablation. `policy`
    says who writes the candidates: "expert" (the built-in code generator) or "llm" (language models).
    `strategy` is the way to search, `search` has its settings; `search.seed` is replaced by each job's seed.
    `device` is the kind of device, and `gpu` the GPU that an emulated device stands for. `dtype` is what
    tasks are cast to, None for their own types.

    `knowledge` is the file of the knowledge base that all searches read and teach; with `alone`, each search
    has a copy of its own. For the policy "llm", `models` are the language models; `roles` says, for single
    kinds of questions, who answers them: "ROLE=expert", "ROLE=llm", or a model, "ROLE=KIND:NAME".
    """

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
        """Which language models take part, and in which roles; None if the policy is `expert`, which uses
        none."""
        if self.policy == "expert":
            return None
        return ModelUse(choice=self.models, roles=self.roles, strategy=self.strategy)

    def asking(self, model_use: ModelUse | None) -> "Setup":
        """A copy of this setup with the policy "llm" and the models, roles and strategy of `model_use`;
        unchanged if that is None."""
        if model_use is None:
            return self
        asked = {"models": model_use.choice, "roles": model_use.roles, "strategy": model_use.strategy}
        return self.model_copy(update={"policy": "llm", **asked})

    @property
    def model(self) -> str | None:
        """The language models as text, for display: their names; if recorded answers are given instead of
        asking, "replay:" with the folder that they come from; if only some roles have a model, ROLE=KIND:NAME
        for each of these. None if no model takes part."""
        if self.policy == "expert":
            return None
        given = self.models
        return given.model or (f"replay:{given.replay}" if given.replay else ", ".join(given.roles))

    @property
    def remembers(self) -> bool:
        """Whether the strategy reads and teaches a knowledge base; False for one that searches without
        memory."""
        return self.strategy in REMEMBERS


class Job(Record):
    """The unit of work of a bench or an ablation: one search of one task (`entry`) with one seed, as `setup`
    says. `arm` is "bench" in a bench; in an ablation it names the study and the arm (way to search) that the
    search belongs to."""

    arm: str
    entry: Entry
    seed: int
    setup: Setup

    @property
    def key(self) -> str:
        """The text that identifies the job in its bench or ablation, made of arm ("bench", or the way to
        search in an ablation), task and seed."""
        return f"{self.arm}/{self.entry.name}/{self.seed}"

    @property
    def asks(self) -> str:
        """A hash of everything that determines the search: all fields but the name of the arm (the way to
        search, in an ablation). Two jobs with the same hash do the same search, so one result serves both."""
        return self.digest_without("arm")

    @property
    def file_name(self) -> str:
        """The job's key with `/` and `:` replaced by other characters, so that it can be a file's name."""
        return self.key.replace("/", "-").replace(":", "-")

    @property
    def model_use(self) -> ModelUse | None:
        """Which language models take part, and in which roles; None if none does. If answers are recorded or
        replayed, their folder is a subfolder for this job alone."""
        use = self.setup.model_use
        if use is None:
            return None
        choice = use.choice
        folders = {"record": choice.record, "replay": choice.replay}
        own = {name: str(Path(folder) / self.file_name) for name, folder in folders.items() if folder}
        return use.model_copy(update={"choice": choice.model_copy(update=own)})


class Spent(Record):
    """What a search cost, recorded with its result so that ways to search can be compared by cost.
    `evaluations` is the number of candidates judged, `device_seconds` how long the device was in use,
    `seconds` the wall-clock time. `tokens` and `usd` (dollars) are for language models; `usd` is None if the
    price of a model is unknown. `estimated`: some tokens were not counted by a server but estimated from the
    texts."""

    evaluations: int
    device_seconds: float
    seconds: float
    tokens: int = 0
    usd: float | None = 0.0
    estimated: bool = False

    @property
    def cost(self) -> Cost:
        return Cost(self.evaluations, self.device_seconds, self.seconds, self.tokens, self.usd)


NOTHING = Spent(evaluations=0, device_seconds=0.0, seconds=0.0)


class JobResult(Record):
    """Result of one search. `job` is the job's key, `run` the name of its run, `group` the level or folder of
    the task, `arm` and `seed` those of the job. `device` is the device's name, `spent` what the search cost.
    `reason` says why there is no result or, with the `status` "valid", why the search stopped early (empty if
    it did not). `applied` are the techniques on the way to the best candidate. `judged` are the speedups over
    eager PyTorch in the order of judging; None for a candidate that failed, or that was verified but then
    rejected by a language model's review of its source. `ranked` are two numbers: pairs of candidates that
    the emulator's timing model put in the right order, and pairs compared.

    `first_us` and `best_us` are the times of the first correct and the best candidate in microseconds,
    `baseline_us` that of the baseline, and `floor_us` the least that the GPU's bandwidth and peak rates
    allow. `modelled`: they come from a model of the GPU. `gain` is the best candidate's speedup over the
    first. Times and gain are None if no candidate is correct.
    """

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
    ranked: tuple[int, int] = (0, 0)


class Measured(Record):
    """The final measurement of a job's best candidate against one `baseline`, such as "eager". If that is
    "initial", the search's first candidate, `speedup` is not measured but computed from two measurements
    against eager PyTorch. Times are in microseconds: `us` of the candidate, `baseline_us` of the baseline,
    and `floor_us`, the least that the GPU's bandwidth and peak rates allow. `outcome` is the kind of the
    judge's verdict, such as "Accepted". `absent`: the baseline does not run. `speedup` is None if the
    baseline is absent, or if the candidate was not correct; `reason` says why."""

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
    """Returns a result for a search of `job` that found no correct candidate: it has the job's key, arm (way
    to search), task, group and seed, this `status` and `reason`, and None for all times."""
    return JobResult(
        job=job.key,
        arm=job.arm,
        task=job.entry.name,
        group=job.entry.group,
        seed=job.seed,
        status=status,
        reason=reason,
    )
