"""`abandoned_answer`: the answer to a request that is given up, because the processes of several devices were
lost while they worked on it."""

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
    """The answer to a request that is given up, for the reason `why`. Evaluations and checks of a candidate
    get an evaluation with the outcome `Abandoned`; profiles get that outcome for each candidate, estimates
    None for each. The preparation of a task gets a BadTask, anything else a DeviceLost; these two are raised
    at whoever sent the request."""
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
