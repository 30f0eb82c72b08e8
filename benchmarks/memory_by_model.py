"""Does memory help a language model? Pairs of related tasks, the second one searched with and without
what the first one taught, and by strategies that know less; played through the hand-off by models that see
nothing but their questions.

    python benchmarks/memory_by_model.py run F [--seats 12] [--arms teach,with,without,...] [--pairs 8]
    python benchmarks/memory_by_model.py status F [--seat 3] [--wait 500]
    python benchmarks/memory_by_model.py report F [--out results/memory-by-model.md]

`run` does the searches, on the emulated device, and waits for answers; stopped and started again, it goes on.
Every seat is one player: no seat plays two searches of the same pair, so that no player knows from its own
questions what another search was taught. First candidates are plain kernels from `related_tasks/`, the same
in every arm; the built-in expert writes nothing. What to tell a player (with F and the number of its seat):

    You play a language model that is asked questions about CUDA kernels. Ask for your next questions with

        python benchmarks/memory_by_model.py status F --seat N --wait 500

    It prints paths of prompt.md files. Read each of them, think as carefully as you can, and write
    answer.json into the same folder (the end of prompt.md says how; schema.json is its form). Long texts,
    such as a source, go into a file of their own beside it, written before answer.json. Then ask again.
    Questions come one by one, some minutes apart, a few tens in all; go on until `status` says that the seat
    is done. If it names a problem.md, read it and correct your answer.
    Answer from the prompt alone. Read no other file, of this folder or of the machine, run nothing but the
    command above, do not compile or test code, and do not look at the answers of others.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import log2
from pathlib import Path
from random import Random
from typing import Any

TASKS = Path(__file__).with_name("related_tasks")
PAIRS = (
    ("masked_running_sum", "backward_gated_sum"),
    ("distance_sum", "distance_kernel"),
    ("causal_convolution", "image_filter"),
    ("window_mean", "window_largest"),
    ("row_log_softmax", "row_scaled_softmax"),
    ("product_relu", "product_gated"),
    ("channels_last", "turned_sum"),
    ("bag_sum", "bag_weighted"),
)
TEACH, WITH, WITHOUT = "teach", "with", "without"
STRATEGIES = {"minimal": "minimal", "no-memory": "no-memory", "cycles-only": "cycles-only"}
ARMS = (TEACH, WITH, WITHOUT, *STRATEGIES)
EVALUATIONS = 6  # of a search, the first candidate among them
REACHED = 0.95
TRIES = 3  # of a search that ends with an error
LEARNING = ("policy-evaluator", "gap-analyst", "knowledge-updater")
ABOUT = f"""Each judged up to {EVALUATIONS} candidates on the emulated H200 (times modelled), beginning with
the same plain kernel in every arm. Every question was answered by a model that saw nothing but its questions,
and no player had two searches of one pair. `with`: the second task of a pair, with the knowledge base that
the search of the first one had taught; `without`: with the shipped one. Learning roles were the model's where
the first task was searched, and the expert's rules elsewhere, where nothing follows that could use what is
learned. Evaluations are those until 95 % of the best that any search of the task found; a search that never
got there counts with {EVALUATIONS + 1}. Tokens are estimated from the texts, without those of the first
candidate. Intervals are 95 %, from drawing the tasks anew."""


@dataclass(frozen=True)
class PlannedSearch:
    """One search of the study: the task `teach` of a pair is its first one, all other arms have the second.
    `seat` is its player's number, from 0 on."""

    pair: int
    arm: str
    seat: int

    @property
    def task(self) -> str:
        return PAIRS[self.pair][0 if self.arm == TEACH else 1]

    @property
    def name(self) -> str:
        """A name that does not tell a player which arm it is."""
        return hashlib.sha256(f"{self.pair}/{self.arm}".encode()).hexdigest()[:6]


@dataclass(frozen=True)
class Study:
    """A study in its folder, with all its searches."""

    folder: Path
    searches: tuple[PlannedSearch, ...]

    def desk(self, search: PlannedSearch) -> Path:
        return self.folder / f"seat-{search.seat}" / search.name

    def result(self, search: PlannedSearch) -> dict[str, Any] | None:
        """What a search came to; None if it is not done."""
        file = self.folder / "done" / f"{search.name}.json"
        return json.loads(file.read_text()) if file.is_file() else None

    def knowledge(self, search: PlannedSearch) -> Path:
        return self.folder / "knowledge" / f"{search.name}.db"

    def named(self, name: str) -> PlannedSearch:
        return next(search for search in self.searches if search.name == name)

    def teacher(self, search: PlannedSearch) -> PlannedSearch:
        return next(one for one in self.searches if one.pair == search.pair and one.arm == TEACH)

    def ready(self, search: PlannedSearch) -> bool:
        """Whether it can begin: a search with memory waits for the one that teaches it."""
        return search.arm != WITH or self.result(self.teacher(search)) is not None


def plan(folder: Path, seats: int, arms: Sequence[str], pairs: int) -> Study:
    """The study in this folder: as it was begun, else a new one, recorded there. Raises SystemExit if a seat
    would play one pair twice."""
    file = folder / "plan.json"
    if not file.is_file():
        if seats < len(arms):
            sys.exit(f"{len(arms)} arms need as many seats: a player must not see one pair twice")
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps([asdict(one) for one in _planned(seats, arms, pairs)], indent=1))
    return Study(folder.resolve(), tuple(PlannedSearch(**one) for one in json.loads(file.read_text())))


def _planned(seats: int, arms: Sequence[str], pairs: int) -> list[PlannedSearch]:
    """Every arm of every pair with its seat: drawn for each pair, so that no player has one arm alone; what
    others wait for first, then in an order that moves on from pair to pair."""
    found = []
    for pair in range(pairs):
        for number, arm in enumerate(Random(pair).sample(arms, len(arms))):
            found.append(PlannedSearch(pair, arm, (pair * len(arms) + number) % seats))

    def order(one: PlannedSearch) -> tuple[bool, bool, int]:
        late = one.arm in ("no-memory", "cycles-only")
        return one.arm != TEACH, late, (arms.index(one.arm) + one.pair) % len(arms)

    return sorted(found, key=order)


# One search, in a process of its own


def search(study: Study, one: PlannedSearch) -> None:
    """Do one search, or go on with it, and write its result."""
    import kernelblaster as kb
    from kernelblaster.knowledge.initial import copy_knowledge
    from kernelblaster.models.choice import ModelChoice
    from kernelblaster.search.model_use import ModelUse
    from kernelblaster.sessions.settings import Search
    from kernelblaster.store.run import run_folders

    study.desk(one).mkdir(parents=True, exist_ok=True)
    threading.Thread(target=_attend, args=(study.desk(one), one.task, os.getppid()), daemon=True).start()
    runs, knowledge = study.folder / "runs" / one.name, study.knowledge(one)
    knowledge.parent.mkdir(exist_ok=True)
    if one.arm == WITH and not knowledge.is_file():
        copy_knowledge(str(study.knowledge(study.teacher(one))), knowledge)
    begun = list(run_folders(runs)) if runs.is_dir() else []
    start = time.time()
    if begun:
        found = kb.resume(begun[-1].name, runs=runs)
    else:
        quiet = () if one.arm == TEACH else tuple(f"{role}=expert" for role in LEARNING)
        use = ModelUse(
            choice=ModelChoice(model=f"handoff:{study.desk(one)}"),
            roles=("initial-writer=llm", "soft-verifier=expert", *quiet),
            strategy=STRATEGIES.get(one.arm, "maic-rl"),  # type: ignore[arg-type]
        )
        limits = {"iterations": 1, "rollouts": 1, "choices": 1, "steps": 3 * EVALUATIONS}
        limits |= {"patience": 3 * EVALUATIONS, "retries": 2, "evaluations": EVALUATIONS}
        found = kb.optimize(
            TASKS / f"{one.task}.py",
            device="emulated",
            gpu="h200",
            model=use,
            budget=Search(**limits),
            knowledge=knowledge,
            runs=runs,
        )
    _leave(study, one, {**_facts(found.run), "seconds": time.time() - start})


def _attend(desk: Path, task: str, parent: int) -> None:
    """Answer the question for a first candidate with the plain kernel that all arms begin with, and end this
    process when the one that started it has ended."""
    answer = {"summary": "One plain kernel.", "source": (TASKS / f"{task}.cu").read_text()}
    while os.getppid() == parent:
        for question in desk.glob("*-initial-writer-*"):
            if (question / "prompt.md").is_file() and not (question / "answer.json").exists():
                (question / ".answer").write_text(json.dumps(answer))
                (question / ".answer").replace(question / "answer.json")
        time.sleep(1)
    os._exit(1)


def _facts(folder: Path) -> dict[str, Any]:
    """What a finished run came to: speedups over eager PyTorch in the order of judging (None: failed), and
    for each role except the first candidate's its questions, tokens, and tokens of the largest question."""
    from kernelblaster.models.spending import calls_of
    from kernelblaster.models.tokens import tokens_of
    from kernelblaster.store.history import History
    from kernelblaster.store.run import open_run

    with open_run(folder.parent, folder.name) as run:
        history = History(run)
        largest: dict[str, int] = {}
        for event in run.events:
            if event.kind == "question":
                role = event.key.partition("/")[0]
                size = tokens_of(event.data["messages"][-1]["text"])
                largest[role] = max(size, largest.get(role, 0))
    roles: dict[str, dict[str, int]] = {}
    for call in calls_of(folder):
        if call.role != "initial-writer":
            entry = roles.setdefault(call.role, {"questions": 0, "tokens": 0, "largest": 0})
            entry["questions"] += 1
            entry["tokens"] += call.usage.tokens
            entry["largest"] = largest.get(call.role, 0)
    outcomes = [one.outcome for one in history.judged]
    return {"status": "done", "judged": [one.speedup for one in history.judged], "outcomes": outcomes} | {
        "roles": roles
    }


def _leave(study: Study, one: PlannedSearch, facts: Mapping[str, Any]) -> None:
    (study.folder / "done").mkdir(exist_ok=True)
    scratch = study.folder / "done" / f".{one.name}"
    scratch.write_text(json.dumps({"pair": one.pair, "arm": one.arm, "task": one.task, **facts}, indent=1))
    scratch.replace(study.folder / "done" / f"{one.name}.json")


# All searches


def run(study: Study) -> None:
    """Do all searches that are not done, one at a time for each seat, until all are; a search that ends with
    an error TRIES times is given up."""
    (study.folder / "logs").mkdir(exist_ok=True)
    running: dict[int, tuple[PlannedSearch, subprocess.Popen[bytes]]] = {}
    tried: dict[str, int] = {}
    try:
        while True:
            for seat, (one, process) in list(running.items()):
                if process.poll() is not None:
                    del running[seat]
                    tried[one.name] = tried.get(one.name, 0) + 1
                    if process.returncode and tried[one.name] >= TRIES:
                        _leave(study, one, {"status": "failed", "judged": [], "outcomes": [], "roles": {}})
                    print(
                        f"{time.strftime('%H:%M:%S')} {one.task} {one.arm}: {process.returncode}", flush=True
                    )
            waiting = [one for one in study.searches if study.result(one) is None]
            if not waiting and not running:
                return
            for one in waiting:
                if one.seat not in running and study.ready(one):
                    running[one.seat] = (one, _started(study, one))
            time.sleep(1)
    finally:
        for _, process in running.values():
            process.terminate()
            process.wait()


def _started(study: Study, one: PlannedSearch) -> "subprocess.Popen[bytes]":
    words = [sys.executable, __file__, "search", str(study.folder), "--name", one.name]
    with (study.folder / "logs" / f"{one.name}.txt").open("ab") as log:
        return subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL)


def unanswered(study: Study, seat: int) -> list[Path]:
    """What a seat's player should read now: questions without an answer, and problems of answers."""
    found = []
    for question in sorted((study.folder / f"seat-{seat}").glob("*/*-*-*")):
        if "-initial-writer-" in question.name or not (question / "prompt.md").is_file():
            continue
        if (question / "problem.md").is_file():
            found.append(question / "problem.md")
        elif not (question / "answer.json").exists():
            found.append(question / "prompt.md")
    return found


def status(study: Study, seat: int | None, wait_s: float) -> None:
    """Print what waits for a seat's player, if need be after a wait; without a seat, how far all are."""
    if seat is None:
        for number in sorted({one.seat for one in study.searches}):
            mine = [one for one in study.searches if one.seat == number]
            done = sum(study.result(one) is not None for one in mine)
            print(
                f"seat {number}: {done} of {len(mine)} searches done; {len(unanswered(study, number))} wait"
            )
        return
    until = time.monotonic() + wait_s
    while True:
        files = unanswered(study, seat)
        mine = [one for one in study.searches if one.seat == seat]
        if files or all(study.result(one) is not None for one in mine):
            print("\n".join(map(str, files)) or f"seat {seat} is done: nothing more will be asked")
            return
        if time.monotonic() > until:
            print("nothing waits yet: ask again")
            return
        time.sleep(2)


# The report


def report(study: Study) -> str:
    """The results so far as Markdown."""
    results = {(one.pair, one.arm): study.result(one) for one in study.searches}
    valid = {key: found for key, found in results.items() if found and any(found["judged"])}
    done = sum(found is not None for found in results.values())
    lines = [
        "# Does memory help a language model?",
        "",
        f"{done} of {len(results)} searches are done. {ABOUT}",
        "",
        *_searches_table(valid),
        "",
        *_arms_table(valid),
        "",
        *_ratios(valid),
        "",
        *_sizes(valid),
        "",
        "    python benchmarks/memory_by_model.py run F",
        "    python benchmarks/memory_by_model.py report F --out results/memory-by-model.md",
        "",
    ]
    return "\n".join(lines)


Results = Mapping[tuple[int, str], Mapping[str, Any]]


def _until(valid: Results, pair: int, arm: str) -> int:
    """Evaluations until a search was within REACHED of the best of its task, EVALUATIONS + 1 if never."""
    from kernelblaster.bench.metrics import evaluations_until

    goal = max(_best(valid, pair, other) for one, other in valid if one == pair and other != TEACH)
    return evaluations_until(valid[pair, arm]["judged"], REACHED * goal) or EVALUATIONS + 1


def _best(valid: Results, pair: int, arm: str) -> float:
    return float(max(speedup for speedup in valid[pair, arm]["judged"] if speedup is not None))


def _gain(valid: Results, pair: int, arm: str) -> float:
    """The best of a search over its first candidate."""
    return _best(valid, pair, arm) / float(valid[pair, arm]["judged"][0])


def _tokens(valid: Results, pair: int, arm: str) -> int:
    return sum(int(role["tokens"]) for role in valid[pair, arm]["roles"].values())


def _searches_table(valid: Results) -> Iterator[str]:
    yield "| task | arm | gain over the first | evaluations until 95 % | failed | questions | tokens |"
    yield "|---|---|---|---|---|---|---|"
    for pair, arm in sorted(valid, key=lambda key: (key[0], ARMS.index(key[1]))):
        found = valid[pair, arm]
        until = "" if arm == TEACH else str(_until(valid, pair, arm))
        questions = sum(role["questions"] for role in found["roles"].values())
        failed = sum(speedup is None for speedup in found["judged"])
        figures = f"{_gain(valid, pair, arm):.2f}x | {until} | {failed} | {questions}"
        yield f"| {found['task']} | {arm} | {figures} | {_tokens(valid, pair, arm):,} |"


def _arms_table(valid: Results) -> Iterator[str]:
    from kernelblaster.bench.metrics import geometric_mean_interval

    yield "| arm | searches | gain | evaluations until 95 % | tokens | tokens for each doubling of speed |"
    yield "|---|---|---|---|---|---|"
    for arm in ARMS:
        pairs = sorted(pair for pair, one in valid if one == arm)
        if not pairs:
            continue
        gain = geometric_mean_interval([[_gain(valid, pair, arm)] for pair in pairs])
        until = None if arm == TEACH else geometric_mean_interval([[_until(valid, p, arm)] for p in pairs])
        tokens = sum(_tokens(valid, pair, arm) for pair in pairs)
        doublings = sum(log2(_gain(valid, pair, arm)) for pair in pairs)
        each = f"{tokens / doublings:,.0f}" if doublings > 0 else "no gain"
        cells = [arm, str(len(pairs)), _words(gain), _words(until), f"{tokens / len(pairs):,.0f}", each]
        yield f"| {' | '.join(cells)} |"


def _ratios(valid: Results) -> Iterator[str]:
    """One line for each comparison, over the tasks that both arms have."""
    from kernelblaster.bench.metrics import geometric_mean_interval

    for mine, other in (
        (WITH, WITHOUT),
        *((full, arm) for full in (WITH, WITHOUT) for arm in STRATEGIES),
    ):
        pairs = [pair for pair in range(len(PAIRS)) if (pair, mine) in valid and (pair, other) in valid]
        if not pairs:
            continue
        evaluations = [[_until(valid, p, mine) / _until(valid, p, other)] for p in pairs]
        speed = [[_best(valid, p, mine) / _best(valid, p, other)] for p in pairs]
        tokens = [[_tokens(valid, p, mine) / max(1, _tokens(valid, p, other))] for p in pairs]
        figures = (_words(geometric_mean_interval(values)) for values in (evaluations, speed, tokens))
        words = zip(("evaluations", "speed of the best", "tokens"), figures, strict=True)
        told = ", ".join(f"{what} {figure}" for what, figure in words)
        yield f"- {mine} over {other}, {len(pairs)} tasks: {told}"


def _sizes(valid: Results) -> Iterator[str]:
    """The largest question of each role, beside its limit."""
    from kernelblaster.policies.llm.roles import TOKENS

    largest: dict[str, int] = {}
    for found in valid.values():
        for role, used in found["roles"].items():
            largest[role] = max(largest.get(role, 0), used["largest"])
    yield "| role | tokens of the largest question | limit |"
    yield "|---|---|---|"
    for role, size in sorted(largest.items()):
        yield f"| {role} | {size:,} | {TOKENS[role].room.most if role in TOKENS else '':,} |"  # type: ignore[index]


def _words(interval: Any) -> str:
    if interval is None:
        return ""
    return f"{interval.estimate:.2f} ({interval.low:.2f} to {interval.high:.2f})"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("verb", choices=("run", "status", "report", "search"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seats", type=int, default=12)
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--pairs", type=int, default=len(PAIRS))
    parser.add_argument("--seat", type=int)
    parser.add_argument("--wait", type=float, default=0.0)
    parser.add_argument("--name")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.verb != "run" and not (given.folder / "plan.json").is_file():
        sys.exit(f"{given.folder}: no study was begun there")
    study = plan(given.folder, given.seats, given.arms.split(","), given.pairs)
    if given.verb == "run":
        run(study)
    elif given.verb == "status":
        status(study, given.seat, given.wait)
    elif given.verb == "search":
        search(study, study.named(given.name))
    else:
        text = report(study)
        print(text)
        if given.out:
            given.out.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
