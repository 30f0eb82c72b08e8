"""The roles (kinds of question that a search asks), the token limits of each, and who plays each by default:
the language model or the rules of the built-in expert policy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

from kernelblaster.errors import KernelBlasterError
from kernelblaster.policies.llm.prompt import Room

Role = Literal[
    "initial-writer",
    "state-extractor",
    "state-matcher",
    "proposer",
    "lowerer",
    "soft-verifier",
    "policy-evaluator",
    "gap-analyst",
    "knowledge-updater",
]
Player = Literal["expert", "llm"]
ROLES: tuple[Role, ...] = get_args(Role)
LEARNING: tuple[Role, ...] = ("policy-evaluator", "gap-analyst", "knowledge-updater")


@dataclass(frozen=True)
class Tokens:
    """Token limits of the questions of one role, and what they usually take. `room` limits the prompt;
    `answer` limits the answer, reasoning included. `usual_prompt` and `usual_answer` are the numbers of
    tokens from which costs are estimated."""

    room: Room
    answer: int
    usual_prompt: int
    usual_answer: int


TOKENS: Mapping[Role, Tokens] = MappingProxyType(
    {
        "initial-writer": Tokens(Room(8_000, 12_000), 16_000, 1_500, 6_000),
        "state-extractor": Tokens(Room(2_500, 5_000), 8_000, 1_500, 1_500),
        "state-matcher": Tokens(Room(1_000, 3_000), 4_000, 400, 600),
        "proposer": Tokens(Room(4_500, 8_000), 8_000, 2_000, 2_500),
        "lowerer": Tokens(Room(5_000, 14_000), 16_000, 2_000, 5_000),
        "soft-verifier": Tokens(Room(16_000, 16_000), 8_000, 2_000, 2_000),
        "policy-evaluator": Tokens(Room(2_000, 4_000), 8_000, 500, 1_500),
        "gap-analyst": Tokens(Room(3_000, 6_000), 8_000, 900, 2_500),
        "knowledge-updater": Tokens(Room(3_000, 5_000), 8_000, 900, 2_000),
    }
)
WITH_A_MODEL: Mapping[Role, Player] = MappingProxyType(
    {
        "initial-writer": "expert",
        "state-extractor": "expert",
        "state-matcher": "expert",
        "proposer": "llm",
        "lowerer": "llm",
        "soft-verifier": "llm",
        "policy-evaluator": "llm",
        "gap-analyst": "llm",
        "knowledge-updater": "llm",
    }
)


@dataclass(frozen=True)
class Cast:
    """Who plays each role (kind of question that a search asks), in `players`: `expert` (the rules of the
    built-in policy) or `llm` (the language model). If the initial writer is `expert`, the model still writes
    the first candidate of tasks for which the expert has no kernels."""

    players: Mapping[Role, Player]

    def llm(self, role: Role) -> bool:
        """True if the language model plays this role, False if the rules of the built-in expert policy do."""
        return self.players[role] == "llm"

    def without(self, roles: Sequence[Role]) -> "Cast":
        """Returns a copy of this cast (who plays each role) in which the rules of the built-in expert policy
        play the given `roles`."""
        return Cast({**self.players, **dict.fromkeys(roles, "expert")})


def cast_of(texts: Sequence[str], *, usual: bool = True) -> tuple[Cast, list[str]]:
    """Parses texts of the form `ROLE=expert`, `ROLE=llm` or `ROLE=KIND:NAME` (a model of its own for that
    role). Returns (who plays each role, the texts of the third form). Roles that no text mentions are played
    as is usual with a model (the table WITH_A_MODEL), or, if `usual` is False, all by the rules of the
    built-in expert policy. Raises KernelBlasterError for a malformed text."""
    players: dict[Role, Player] = dict(WITH_A_MODEL) if usual else dict.fromkeys(ROLES, "expert")
    named = []
    for text in texts:
        role, equals, player = text.partition("=")
        if role not in ROLES or not equals or not player:
            raise KernelBlasterError(
                f"{text!r}: should be ROLE=expert, ROLE=llm or ROLE=KIND:NAME, with one of "
                f"{', '.join(ROLES)}."
            )
        players[role] = "expert" if player == "expert" else "llm"  # type: ignore[index]
        if player not in ("expert", "llm"):
            named.append(text)
    return Cast(MappingProxyType(players)), named
