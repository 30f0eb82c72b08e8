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
    """The answer to a request that is given up, for the reason `why`. For evaluations and checks of a
    candidate it is an evaluation with the outcome `Abandoned`; for profiles, that outcome for each candidate;
    for estimates, None for each. For the preparation of a task it is a BadTask, for anything else a
    DeviceLost; whoever sent the request gets these raised as exceptions."""
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
