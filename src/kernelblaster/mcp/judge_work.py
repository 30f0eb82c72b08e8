"""The process that judges for agents. It holds the device, the tasks and the runs, and answers one request
after another.

It is a process of its own for two reasons: a request can be ended, and a task that crashes it does not end
the server.
"""

import threading
from collections import OrderedDict
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from kernelblaster import opening
from kernelblaster.api.asking import AskTell
from kernelblaster.api.searching import SearchRequest, check_device, named_models, new_run, search_of
from kernelblaster.api.subjects import load_candidate
from kernelblaster.building import telling
from kernelblaster.errors import BadTask, KernelBlasterError, StoreError
from kernelblaster.export.run import export_run
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.knowledge.events import Provenance
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.knowledge.seed import plant
from kernelblaster.mcp import summaries
from kernelblaster.mcp.setup import AgentSetup
from kernelblaster.mcp.techniques import described, ranked_data
from kernelblaster.mcp.working_tools import which_work
from kernelblaster.policies.expert.states import extract_states
from kernelblaster.policies.llm.figures import reached
from kernelblaster.processes.workers import JobPipe
from kernelblaster.readiness import readiness_of
from kernelblaster.records import Evaluation, Profile, Task
from kernelblaster.records.kernel_name import source_name
from kernelblaster.sessions.session import Session
from kernelblaster.sessions.settings import Search
from kernelblaster.shortage import shortage
from kernelblaster.store.files import name_of
from kernelblaster.store.history import UNLIMITED, History
from kernelblaster.store.run import Run, open_run
from kernelblaster.store.subject import task_of
from kernelblaster.tasks.catalog import load_file
from kernelblaster.tasks.cautions import cautions
from kernelblaster.tasks.fitness import fitness_of
from kernelblaster.tasks.floor import floor_of
from kernelblaster.tasks.floor_words import counted
from kernelblaster.tasks.header import declaration
from kernelblaster.tasks.plain_module import check_plain

MOST_TASKS, MOST_RUNS = 16, 8  # that are kept open
MOST_LEFT_OUT = 24  # techniques of which it is said why they are not proposed
LONGEST_MODULE = 12_000  # characters of a task's source that are shown


def work(pipe: JobPipe, setup: AgentSetup) -> None:
    """The main function of the process that judges. It reads requests (number, verb, arguments) from `pipe`
    and answers each with any number of messages (number, "stage", text), then one (number, "done", data) or
    (number, "failed", text). `setup` says which folders, device and knowledge base it may use."""
    desk = JudgeDesk(setup, pipe)
    try:
        for number, verb, arguments in pipe.jobs():
            desk.number = number
            try:
                with telling(desk.say):
                    answer = (number, "done", getattr(desk, verb)(**arguments))
            except KernelBlasterError as error:
                answer = (number, "failed", str(error))
            except (OSError, MemoryError, RuntimeError) as error:
                words = shortage(error)
                if words is None:
                    raise
                answer = (number, "failed", words)
            pipe.tell(answer)
    finally:
        desk.close()


class JudgeDesk:
    """What the judge's process keeps between requests: device, tasks and runs. `setup` says what it may use;
    messages to the server go through `pipe`. Each public method answers one kind of request: it takes and
    returns JSON data. If it cannot, it raises KernelBlasterError, which says what to do."""

    def __init__(self, setup: AgentSetup, pipe: JobPipe) -> None:
        self.number = 0
        self._setup = setup
        self._pipe = pipe
        self._lock = threading.Lock()
        self._open = ExitStack()
        self._judge: DeviceJudge | None = None
        self._emulating: DeviceJudge | None = None
        self._knowledge: KnowledgeBase | None = None
        self._tasks: OrderedDict[tuple[object, ...], Task] = OrderedDict()
        self._asking: OrderedDict[str, tuple[AskTell, Run, Task]] = OrderedDict()

    def say(self, stage: str) -> None:
        """Tells the server the `stage`, that is what is being done now, as one line for the agent who
        waits."""
        with self._lock:
            self._pipe.tell((self.number, "stage", stage))

    def close(self) -> None:
        """Write the results of the runs, and close everything."""
        while self._asking:
            self._close_oldest()
        self._open.close()

    # Tasks

    def show(self, task: dict[str, Any]) -> dict[str, Any]:
        """Returns what the author of a candidate must know about a task, as JSON data: the C "declaration" of
        the function to write, the "source" of the reference, the sizes that are timed ("timed_sizes") and
        others that are verified ("other_sizes"), the least bytes and operations that any candidate needs
        ("floor"), the "dtype", and "notes"."""
        loaded = self._load(**task)
        floor = floor_of(loaded)
        return {
            "task": loaded.name,
            "kind": loaded.kind,
            "declaration": declaration(loaded.signature, loaded.name),
            "source": loaded.source[:LONGEST_MODULE],
            "timed_sizes": loaded.primary.sizes,
            "other_sizes": {w.name: w.sizes for w in loaded.workloads if w.name != "primary"},
            "floor": {"bytes": floor.bytes, "operations": floor.operations, "counts": counted(floor)},
            "dtype": loaded.dtype,
            "notes": list(loaded.notes),
        }

    def check(self, task: dict[str, Any]) -> dict[str, Any]:
        """Returns as JSON data whether candidates for a task can be judged ("fit"), the "problems" if not,
        the parameters that outputs do not depend on ("insensitive"), what authors must mind ("cautions"), and
        for each tool whether it works on the task or why not ("tools")."""
        loaded = self._load(**task)
        fitness = fitness_of(loaded)
        emulated = opening.kind_here(self._setup.device, self._setup.gpu) == "emulated"
        return {
            "task": loaded.name,
            "fit": fitness.fit,
            "problems": list(fitness.problems),
            "insensitive": list(fitness.insensitive),
            "cautions": list(cautions(fitness)),
            "tools": which_work(readiness_of(loaded, fitness), emulated=emulated),
        }

    # Candidates

    def evaluate(
        self,
        task: dict[str, Any],
        source: str,
        run: str | None,
        technique: str | None,
        description: str = "",
        sweep: bool = False,
    ) -> dict[str, Any]:
        """Judges a candidate for `task` and records it in `run`; None makes a new run. `source` is its CUDA
        source. `technique` names the technique by which it was made from the run's best candidate so far; the
        knowledge base learns how much the technique gained. None: it learns nothing. `description` says what
        a technique of the agent's own does; without one, the technique is not offered to others. `sweep`:
        every combination of the constants that the source declares as tunable is judged; the verdict is that
        of the best.

        Returns the verdict, the run, the best so far, and two names of the candidate: "source", the id of its
        text among the run's files, and "code", a hash of text and constants that trajectories and exports
        have.
        """
        asking, opened, loaded = self._run(task, run)
        before = asking.best
        candidate = load_candidate(_text(source), loaded)
        tried: list[Evaluation] = []
        if sweep:
            evaluation, tried = asking.sweep(candidate, technique, description)
            candidate = candidate.with_defines(dict(evaluation.defines))
        else:
            evaluation = asking.tell(candidate, technique, description)
        data = summaries.evaluation_data(evaluation, source) | summaries.sweep_data(tried)
        best = asking.best
        if technique is not None and not asking.is_described(technique):
            data["undescribed"] = summaries.UNDESCRIBED
        if "floor_us" in data:
            data["floor_counts"] = counted(self._device_judge().prepare(loaded)[1])
        data |= {"run": opened.name, "source": opened.files.put(candidate.source), "code": candidate.code}
        if best is not None and best.timing is not None:
            again = before is not None and best.candidate == before.candidate
            shown = summaries.outcome_data(best.outcome)["speedup"]
            data["best_so_far"] = {"speedup": shown, "is_this": best.candidate == evaluation.candidate}
            data["improved"] = not again
        return data

    def emulate(self, task: dict[str, Any], source: str) -> dict[str, Any]:
        """Runs a candidate for `task` (its CUDA `source`) at a small size on the PTX machine, the emulator,
        and compares it with the reference. Returns as JSON data whether it is correct or what is wrong with
        it, and the counts (instructions, traffic) of its first 16 kernel launches. Records nothing."""
        loaded = self._load(**task)
        judge = self._device_judge()
        if not judge.device.modelled:
            judge = self._emulator()
        checked = judge.check(loaded, load_candidate(_text(source), loaded))
        return summaries.checked_data(checked.outcome, checked.counters)

    def profile(self, task: dict[str, Any], source: str) -> dict[str, Any]:
        """Profiles a candidate for `task`. Returns as JSON data its kernels with their shares of the time (0
        to 1), what bounds them and their performance states; if it fails verification, its outcome instead.
        States have the names that they have in the knowledge base. A state that matches none there is added
        to the knowledge base."""
        loaded = self._load(**task)
        judge = self._device_judge()
        result = judge.profile(loaded, [load_candidate(_text(source), loaded)])[0]
        if not isinstance(result, Profile):
            return summaries.outcome_data(result)
        floor = judge.prepare(loaded)[1].bytes
        states = extract_states(result, floor)
        listed = sorted(states, key=lambda one: -one.share)[:16]
        known = self._known()
        return {
            "digest": summaries.profile_text(result, floor)[:8000],
            "kernels": [
                {
                    "kernel": source_name(one.kernel)[:100],
                    "share": round(one.share, 3),
                    "state": known.match(one.state, Provenance(run="mcp")),
                    "meaning": one.state.description,
                    "reached": reached(one.state),
                    "metrics": one.state.metrics,
                }
                for one in listed
            ],
            "times": summaries.MODELLED if judge.device.modelled else "measured",
        }

    def propose(self, task: dict[str, Any], run: str | None) -> dict[str, Any]:
        """Returns what to try next on the fastest correct candidate of a run, as JSON data: the kernel to
        work on, its performance state, and techniques, the most promising first; also the techniques that
        cannot help there, each with the reason. Raises KernelBlasterError if `run` is None (nothing was
        evaluated for the task yet)."""
        if run is None:
            raise KernelBlasterError("nothing was evaluated for this task yet: call evaluate first.")
        asking, opened, _ = self._run(task, run)
        advice = asking.ask()
        content = self._known().content()
        entries = content.entries.get(advice.state, {})
        target = advice.target
        return {
            "run": opened.name,
            "kernel": target.kernel,
            "share_of_time": round(target.share, 3),
            "state": advice.state,
            "meaning": target.state.description,
            "reached": reached(target.state),
            "techniques": ranked_data(described(advice.options, content), entries),
            "left_out": dict(list(advice.left_out.items())[:MOST_LEFT_OUT]),
            "best_source": opened.files.put(asking.result().source),
            **summaries.constants_data(asking.best),
        }

    # Runs

    def prepare_search(
        self, task: dict[str, Any], budget: int, seconds: float | None, questions: str | None
    ) -> dict[str, Any]:
        """Makes a run for a search for `task` that another process will do; returns its name. The search
        judges at most `budget` candidates and takes at most `seconds` (None: no limit). `questions` is the
        folder in which agents answer in place of a language model; None: none takes part."""
        loaded = self._load(**task)
        models = named_models(f"handoff:{questions}" if questions else None)
        search = search_of(budget, models).model_copy(update={"wall_seconds": seconds})
        setup = self._setup
        wanted = SearchRequest(
            loaded.name, search, setup.knowledge, setup.device, setup.gpu, loaded.cast, models
        )
        if models is None:
            self._check_expert(loaded)
        with new_run(loaded, wanted, setup.runs) as run:
            return {"run": run.name}

    def export(self, run: str, format: str) -> dict[str, Any]:
        """Returns the best candidate of a run as JSON data. "text" is a file that works without
        KernelBlaster, in this `format`: "cu" for a CUDA source, "module" for a Python file with a torch
        module, or "kernelbench" for one in KernelBench's form. "source", the id of the candidate's text, and
        "code", a hash of text and constants, are as `evaluate` returns them."""
        if run in self._asking:
            self._asking[run][0].finish()
        with open_run(self._setup.runs, run) as opened:
            text = export_run(opened, format)  # type: ignore[arg-type]
            best = History(opened).best_candidate()[0]
            named = {"source": name_of(best.source), "code": best.code}
            return {"run": opened.name, "format": format, **named, "text": text}

    def release(self) -> dict[str, Any]:
        """If this process has a GPU open, closes it and all runs on it, so that a search in another process
        can have the GPU. Returns {}."""
        if self._judge is None or self._judge.device.modelled:
            return {}
        self.close()
        self._judge = self._emulating = self._knowledge = None
        self._open = ExitStack()
        return {}

    def _check_expert(self, task: Task) -> None:
        """Raise BadTask if a search without a language model cannot begin with a task, because the built-in
        expert has no kernels for it."""
        from kernelblaster.policies.expert.policy import ExpertPolicy

        if task.kind == "cuda":
            return
        try:
            ExpertPolicy().initial(task)
        except KernelBlasterError as error:
            reason = str(error).partition(". ")[0]
            raise BadTask(
                f"{reason}. The built-in expert cannot begin with this task: write candidates yourself and "
                "call evaluate, or call start_search with agent=true and answer its questions."
            ) from error

    def _load(self, name: str, path: str, shipped: bool) -> Task:
        """The task `name` in the file `path`, loaded once for each version of it. A Python file that is not
        shipped is checked first to contain nothing but a plain module, unless the user trusts tasks. Raises
        BadTask."""
        file = Path(path)
        try:
            status = file.stat()
        except OSError as error:
            raise BadTask(f"{name}: {error.strerror or error}") from error
        key = (name, path, status.st_mtime_ns, status.st_size)
        if key not in self._tasks:
            self.say("loading the task")
            if file.suffix == ".py" and not shipped and not self._setup.trusted:
                check_plain(file.read_text(), name)
            self._tasks[key] = load_file(name, file)
            while len(self._tasks) > MOST_TASKS:
                self._tasks.popitem(last=False)
        self._tasks.move_to_end(key)
        return self._tasks[key]

    def _device_judge(self) -> DeviceJudge:
        """The judge on the device that the server was started with, opened at the first call."""
        if self._judge is None:
            self.say("opening the device")
            setup = self._setup
            opened = opening.open_searching(setup.device, setup.gpu, progress=self.say)
            self._judge = self._open.enter_context(opened)
        return self._judge

    def _emulator(self) -> DeviceJudge:
        """A judge on the emulator, opened at the first call, for a server whose own judge has a GPU."""
        if self._emulating is None:
            opened = opening.open_judge("emulated", None, progress=self.say)
            self._emulating = self._open.enter_context(opened)
        return self._emulating

    def _known(self) -> KnowledgeBase:
        """The open knowledge base, which also has the shipped knowledge; opened at the first call."""
        if self._knowledge is None:
            self._knowledge = self._open.enter_context(KnowledgeBase(self._setup.knowledge))
            plant(self._knowledge)
        return self._knowledge

    def _run(self, task: dict[str, Any], name: str | None) -> tuple[AskTell, Run, Task]:
        """An open run whose candidates an agent writes, with its search and its task: the run `name`,
        continued, or a new one if that is None. Raises StoreError for a run of a search, or of another
        task."""
        if name is not None and name in self._asking:
            self._asking.move_to_end(name)
            return self._checked(task, name)
        loaded = self._load(**task)
        judge, known = self._device_judge(), self._known()
        search = Search(evaluations=UNLIMITED)
        setup = self._setup
        if name is None:
            wanted = SearchRequest(
                loaded.name, search, setup.knowledge, setup.device, setup.gpu, loaded.cast, by="agent"
            )
            run = new_run(loaded, wanted, setup.runs)
        else:
            run = open_run(setup.runs, name, writing=True)
            if run.events[0].data.get("by") != "agent":
                run.close()
                raise StoreError(
                    f"{name}: is a search's run, not an agent's; leave run out to begin another."
                )
        check_device(run, judge.device.name)
        kept = loaded if name is None else task_of(run)
        self._asking[run.name] = AskTell(run, known, Session(kept, judge, known, run, search)), run, kept
        while len(self._asking) > MOST_RUNS:
            self._close_oldest()
        return self._checked(task, run.name)

    def _checked(self, task: dict[str, Any], name: str) -> tuple[AskTell, Run, Task]:
        """The open run of this name, with its search and its task. Raises StoreError if it is for another
        task."""
        found = self._asking[name]
        if found[2].digest != self._load(**task).digest:
            raise StoreError(f"{name}: is a run of {found[2].name}, not of {task['name']}; leave run out.")
        return found

    def _close_oldest(self) -> None:
        """Closes the open run that was used least recently, after writing its results, so that not too many
        are open."""
        _, (asking, run, _) = self._asking.popitem(last=False)
        asking.finish()
        run.close()


def _text(source: str) -> str:
    """The source with a line break at the end if it has no line break at all. `load_candidate` takes a text
    without one for a file's path."""
    return source if "\n" in source else source + "\n"
