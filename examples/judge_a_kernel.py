"""Judge one kernel: is it right, how fast is it, and what does it do? A few seconds without a GPU.

python examples/judge_a_kernel.py
"""

from pathlib import Path

import kernelblaster as kb

HERE = Path(__file__).parent


def main() -> None:
    evaluation = kb.evaluate("core/level1/softmax", HERE / "softmax.cu", device="emulated")
    print(evaluation.outcome.kind, "on", evaluation.device)
    if evaluation.timing is not None:
        how = "modelled" if evaluation.timing.modelled else "measured"
        print(f"{evaluation.timing.candidate_us:.0f} us {how}, eager {evaluation.timing.baseline_us:.0f} us")

    checked = kb.emulate("core/level1/softmax", HERE / "racy_softmax.cu")
    outcome = checked.outcome  # a failure is a value, with a reason and evidence
    print("racy_softmax.cu:", getattr(outcome, "reason", "right"))


if __name__ == "__main__":
    main()
