"""The roles (kinds of question that a search asks), who plays each by default, the language model or the
expert's rules, and the token limits of each."""

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
    """Token limits of one question of a role: of the prompt (`room`) and of the answer, reasoning included
    (`answer`); and the usual numbers of both, from which costs are estimated."""

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
    """Who plays each role: the expert's rules or the language model. An `expert` initial writer leaves tasks
    that it does not cover to the model."""

    players: Mapping[Role, Player]

    def llm(self, role: Role) -> bool:
        """Whether the language model plays this role, and not the expert's rules."""
        return self.players[role] == "llm"

    def without(self, roles: Sequence[Role]) -> "Cast":
        """The same distribution of roles, but with `roles` played by the expert's rules."""
        return Cast({**self.players, **dict.fromkeys(roles, "expert")})


def cast_of(texts: Sequence[str], *, usual: bool = True) -> tuple[Cast, list[str]]:
    """Parses texts `ROLE=expert`, `ROLE=llm` or `ROLE=KIND:NAME` to (who plays each role: the expert's rules
    or a language model; those texts that name a model for one role). Roles that are not mentioned are as
    usual with a model (WITH_A_MODEL), or all the expert's if not `usual`. Raises KernelBlasterError for a
    malformed text."""
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
