"""A run of `optimize` with events as a search records them, made and not searched."""

from collections.abc import Sequence
from math import log
from pathlib import Path
from typing import Any

from kernelblaster.records import Candidate
from kernelblaster.store.run import LOG, Run

BASELINE_US = 100.0
FLOOR_US = 20.0
SOURCE = "__global__ void scale(float* out) {{\n  // version {}\n  out[threadIdx.x] = {}.0f;\n}}\n"
REFERENCE = "import torch\n\n\nclass Model(torch.nn.Module):\n    pass\n"


class MadeRun:
    """Candidates are judged with `judge`, one after the other, each made from the one before by `technique`
    in `state`; `end` records the results. Texts may be anything."""

    def __init__(
        self, folder: Path, *, task: str = "core/level1/scale", technique: str = "unrolling", **about: Any
    ) -> None:
        folder.mkdir(parents=True)
        (folder / LOG).touch()
        self.folder = folder
        self.run = Run(folder, writing=True)
        self.codes: list[str] = []
        self._technique = technique
        created = {"task": task, "dtype": None, "device": "emulated", "gpu": "h200", "kb": "/data/team.db"}
        created |= {"search": {"evaluations": 9, "seed": 3, "selection": "weighted"}}
        self.run.append("created", **created | about)
        kept = {"name": task, "dtype": "float32", "cast": None, "suffix": ".py"}
        self.run.once("task", "kept", lambda: kept | {"source": self.run.files.put(REFERENCE)})
        self.run.once("device", "begun", lambda: {"name": "PTX machine (NVIDIA H200)"})

    def judge(
        self, outcome: str, us: float = 50.0, *, modelled: bool = True, state: str = "latency", **said: str
    ) -> str:
        """One candidate more; with `said` as the reason and evidence of one that failed."""
        number = len(self.codes)
        source = said.pop("source", SOURCE.format(number, number))
        code = Candidate(source=source).code
        ratio = BASELINE_US / us
        between = {"low": ratio / 1.5, "high": ratio * 1.5, "confidence": None if modelled else 0.99}
        correct = outcome in ("Accepted", "Inconclusive", "Slower")
        told = (
            {"speedup": {"estimate": ratio} | between} if correct else {"reason": "r", "evidence": "e"} | said
        )
        timing = {"candidate_us": us, "baseline_us": BASELINE_US, "floor_us": FLOOR_US, "modelled": modelled}
        verdict: dict[str, Any] = {"candidate": Candidate(source=source).digest, "device_seconds": 1.0}
        verdict |= {"device": "PTX machine (NVIDIA H200)"}
        verdict |= {"outcome": {"kind": outcome} | told, "timing": timing if correct else None}
        verdict |= {"profile": _profile(us) if correct else None}
        data = {"source": self.run.files.put(source), "evaluation": verdict}
        self.run.once("evaluation", code, lambda: data)
        if number:
            self._step(code, number, us, state, None if correct else outcome)
        self.codes.append(code)
        return code

    def _step(self, code: str, number: int, us: float, state: str, failure: str | None) -> None:
        key = f"0/0/{number - 1}"
        option = {"technique": self._technique, "move": 0, "predicted": 1.2, "promise": 0.1, "payoff": 0.0}
        choice = {"state": state, "target": 0, "by_chance": False, "options": [option]}
        self.run.once("proposals", f"{key}/0", lambda: {"techniques": [self._technique, "fast_math"]})
        self.run.once("choice", key, lambda: choice)
        step = {"id": f"{key}/0", "state": state, "technique": self._technique, "predicted": 1.2}
        step |= {"result": failure or log(60.0 / us), "taken": failure is None, "kernel": "scale"}
        step |= {"share": 0.5, "parent": self.codes[-1], "child": code}
        self.run.once("steps", key, lambda: {"steps": [step]})

    def ask(self, name: str, prompt: str, answer: dict[str, Any] | None) -> None:
        messages = [{"speaker": "system", "text": "be brief"}, {"speaker": "user", "text": prompt}]
        self.run.once("question", name, lambda: {"messages": messages})
        if answer is not None:
            self.run.once("answer", name, lambda: {"answer": answer, "model": "m"})

    def end(self, best: str, *, sentence: str = "it was bound by memory", state: str = "latency") -> None:
        gap = {"state": state, "technique": self._technique, "sentence": sentence}
        score = {"speedup": 1.4, "valid_chance": 0.9, "attempts": 2.0}
        changed = {"state": state, "technique": self._technique, "before": None, "after": score}
        learned = {"from": 1, "to": 2, "states": [], "techniques": [changed], "reasons": [gap], "events": []}
        self.run.once("update", "0", lambda: {"gaps": [gap], "changes": []})
        self.run.once("finished", "end", lambda: {"best": best})
        data = {"best": best, "applied": [self._technique], "learned": learned}
        self.run.once("results", "end", lambda: data)

    def close(self) -> Path:
        self.run.close()
        return self.folder


def made_run(
    folder: Path, outcomes: Sequence[tuple[str, float]], *, ended: bool = True, **about: Any
) -> Path:
    """A run with these outcomes and times; the fastest is the best."""
    made = MadeRun(folder, **about)
    for outcome, us in outcomes:
        made.judge(outcome, us)
    if ended:
        made.end(made.codes[min(range(len(outcomes)), key=lambda at: outcomes[at][1])])
    return made.close()


def _profile(us: float) -> dict[str, Any]:
    values = {
        "Duration": ("us", us),
        "DRAM Throughput": ("%", 2000 / us),
        "dram__bytes_read.sum": ("byte", 4e6),
    }
    metrics = [{"name": n, "unit": unit, "value": float(value)} for n, (unit, value) in values.items()]
    return {"tier": "modelled", "kernels": [{"name": "scale(float *)", "metrics": metrics}]}
