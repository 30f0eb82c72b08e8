"""Host check: refuses candidates whose host code may behave differently in another process, because it
computes or decides something by addresses.

Code that goes wrong in one process of a million cannot be found by running it. So the host code is executed
instruction by instruction, and every use of an address in it is checked.
"""

from kernelblaster.devices.device import Argument, CandidateDied, CandidateHung, Runner
from kernelblaster.judge.stop import failure
from kernelblaster.records import Outcome, Rejected

FOLLOWED = "host code: followed; it decides nothing by addresses"
NOT_FOLLOWED = "host code: not checked for what it does with addresses: "
EARLIER = (0, 1, 3)  # calls before the one that is followed: host code may set something up in its first ones


def check_host_code(runner: Runner, arguments: tuple[Argument, ...]) -> Outcome | str:
    """Checks the host code of the candidate loaded in `runner` by executing it instruction by instruction, in
    calls with these `arguments`. This is done in two processes that differ only in their addresses. Host code
    may pass addresses on, compare them with each other and align them; any other use of an address is
    refused. Returns an outcome if the candidate fails: Rejected for a refused use of addresses, RuntimeFailed
    if its process dies, TimedOut if it hangs. Otherwise returns a note in words: that the host code was
    checked, or why it could not be."""
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
