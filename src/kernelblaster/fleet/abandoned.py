"""The answer to a request whose work is not tried any more, because several owners were lost with it."""

from kernelblaster.errors import BadTask, DeviceLost
from kernelblaster.fleet.requests import (
    ConfirmRequest,
    EstimateRequest,
    EvaluateRequest,
    PrepareRequest,
    ProfileRequest,
    Request,
)
from kernelblaster.records import Abandoned, Evaluation


def abandoned_answer(request: Request, why: str) -> object:
    """What whoever asked gets: the outcome `Abandoned` for a candidate, an error to raise for a task whose
    preparation ends its process."""
    outcome = Abandoned(reason=why)
    match request:
        case EvaluateRequest():
            return Evaluation(
                task=request.task.name,
                candidate=request.candidate.digest,
                device=f"{request.choice.kind} {request.choice.gpu or ''}".strip(),
                outcome=outcome,
                defines=request.candidate.defines,
                seconds=0.0,
            )
        case ProfileRequest():
            return [outcome for _ in request.candidates]
        case EstimateRequest():
            return [None for _ in request.candidates]
        case ConfirmRequest():
            return request.evaluation.model_copy(update={"outcome": outcome, "timing": None})
        case PrepareRequest():
            return BadTask(f"{request.task.name}: {why}")
        case _:
            return DeviceLost(why)
