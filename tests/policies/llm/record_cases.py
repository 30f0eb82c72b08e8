"""Writes data/: three tasks of the core suite with the expert's first candidates, and a modelled profile.

python tests/policies/llm/record_cases.py
"""

import json
import tempfile
from pathlib import Path

from kernelblaster.opening import open_searching
from kernelblaster.policies.expert.policy import ExpertPolicy
from kernelblaster.tasks.catalog import load_task
from tests.policies.llm.played import TASK

DATA = Path(__file__).parent / "data"
CASES = {
    "small": "core/level1/gelu",
    "middle": "core/level2/matmul_bias_softmax",
    "largest": "core/level3/decoder_block",
}


def main() -> None:
    for name, task_name in CASES.items():
        task = load_task(task_name)
        source = ExpertPolicy().initial(task).candidate.source
        told = {"task": task.model_copy(update={"path": ""}).model_dump(mode="json"), "source": source}
        (DATA / f"{name}.json").write_text(json.dumps(told, indent=1) + "\n")
    with tempfile.TemporaryDirectory() as folder, open_searching("emulated") as judge:
        (Path(folder) / "relu.py").write_text(TASK)
        task = load_task(str(Path(folder) / "relu.py"))
        candidate = ExpertPolicy().initial(task).candidate
        evaluation = judge.evaluate(task, candidate)
        task = task.model_copy(update={"path": "", "name": "relu.py"})
        told = {
            "task": task.model_dump(mode="json"),
            "source": candidate.source,
            "evaluation": json.loads(evaluation.model_copy(update={"task": task.name}).model_dump_json()),
        }
        (DATA / "relu.json").write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
