"""Host check: refuses candidates whose host code may do something else in another process. Running it cannot
find code that is wrong in one process of a million; following what it does with addresses does."""

from kernelblaster.devices.device import Argument, CandidateDied, CandidateHung, Runner
from kernelblaster.judge.stop import failure
from kernelblaster.records import Outcome, Rejected

FOLLOWED = "host code: followed; it decides nothing by addresses"
NOT_FOLLOWED = "host code: not checked for what it does with addresses: "
EARLIER = (0, 1, 3)  # calls before the one that is followed: host code may set something up in its first ones


def check_host_code(runner: Runner, arguments: tuple[Argument, ...]) -> Outcome | str:
    """Follow the host code of a loaded candidate through a call with these arguments. What differs between
    two processes that make the same call are addresses, which it may hand on, compare with each other and
    align, but not compute with. Returns the outcome of a candidate that does more, else a note in words that
    says that it was checked, or why it could not be."""
    for earlier in EARLIER:
        try:
            call = runner.stepped(arguments, earlier)
        except (CandidateDied, CandidateHung) as error:
            return failure(error, "verify", "in a recording of its host code")
        if call.missing:
            return NOT_FOLLOWED + call.missing
        if call.finding:
            return Rejected(
                reason="host-state",
                evidence=f"the host code {call.finding}: what it launches may depend on where it is loaded, "
                "or where tensors are, and must depend on the arguments' values alone",
            )
    return FOLLOWED
