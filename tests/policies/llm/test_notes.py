"""A note that a person leaves for a search is in the next prompts of those who write, and in the record."""

from pathlib import Path
from typing import Any

from kernelblaster.models.tokens import tokens_of
from kernelblaster.policies.llm.asker import QUESTION
from kernelblaster.policies.llm.lowerer import Lowering, lower
from kernelblaster.policies.llm.policy import MixedPolicy
from kernelblaster.policies.llm.proposer import Inquiry, propose
from kernelblaster.policies.llm.roles import cast_of
from kernelblaster.policies.llm.state_matcher import match_by_model
from kernelblaster.sessions.steering import Steering
from kernelblaster.store.run import Run, create_run, open_run
from kernelblaster.store.steering import LONGEST_NOTE, LeaveNote, append_command
from tests.policies.llm.played import FUSED, rewrite
from tests.policies.llm.scenes import FLOOR_BYTES, Scripted, SessionInMemory, case, relu
from tests.policies.llm.test_policy import Expert, begun

WRITES: dict[str, Any] = {
    "lowerer": rewrite(source=FUSED),
    "proposer": {"proposals": []},
    "state_matcher": {"name": "", "reason": ""},
}
HEADING = "# From the person who runs this search"


class Place:
    """A policy in an open run, with a model that keeps what it was asked."""

    def __init__(self, run: Run) -> None:
        self.model = Scripted(**WRITES)
        self.run = run
        small, evaluation = relu()
        self.session = SessionInMemory(evaluations={small.candidate.code: evaluation}, steering=Steering(run))
        self.session.once = run.once  # type: ignore[method-assign]
        self.policy = MixedPolicy(Expert(""), cast_of([])[0], self.model, self.session)  # type: ignore[arg-type]
        self.policy.begin(small.task)
        self.attempt, self.target = begun(self.policy)

    def leave(self, text: str, **more: Any) -> None:
        append_command(self.run.folder, LeaveNote(text=text, **more), "me")

    def step(self, number: int) -> None:
        assert self.session.steering is not None
        self.session.steering.take(f"0/{number}")

    def lower(self, technique: str) -> str:
        list(self.policy.moves(self.attempt, technique, self.target))
        return self.model.prompt()


def test_a_note_is_in_the_questions_of_the_next_step_only(tmp_path: Path) -> None:
    with create_run(tmp_path) as run:
        place = Place(run)
        assert HEADING not in place.lower("unrolling")
        place.leave("at most 64 registers\u202e a thread")
        assert HEADING not in place.lower("fast_math"), "it is taken between two steps"
        place.step(1)
        for technique in ("kernel_fusion", "block_shape"):
            prompt = place.lower(technique)
            assert f"{HEADING}\nat most 64 registers a thread\n" in prompt
        place.step(2)
        assert HEADING not in place.lower("vectorized_memory_access")
        asked = [event.data for event in run.events if event.kind == QUESTION and "notes" in event.data]
        assert len(asked) == 2 and HEADING in asked[0]["messages"][-1]["text"]


def test_a_note_waits_for_a_step_in_which_something_is_asked(tmp_path: Path) -> None:
    with create_run(tmp_path) as run:
        place = Place(run)
        place.leave("hello")
        for number in range(1, 4):
            place.step(number)
        assert HEADING in place.lower("unrolling")
        place.step(4)
        assert HEADING not in place.lower("fast_math")


def test_a_standing_note_stays(tmp_path: Path) -> None:
    with create_run(tmp_path) as run:
        place = Place(run)
        place.leave("always", standing=True)
        place.leave("once")
        place.step(1)
        assert "always\n\nonce" in place.lower("unrolling")
        place.step(2)
        assert "always\nDo as" in place.lower("fast_math")


def test_proposers_read_it_too_and_those_who_judge_do_not(tmp_path: Path) -> None:
    small, _ = relu()
    with create_run(tmp_path) as run:
        place = Place(run)
        place.leave("try tensor cores")
        place.step(1)
        propose(place.policy.scene, Inquiry(small.candidate, place.target, small.profile, FLOOR_BYTES))
        assert "try tensor cores" in place.model.prompt()
        match_by_model(place.policy.scene, place.target.state.model_copy(update={"name": "new"}))
        assert place.model.asked[-1] == "state-matcher" and HEADING not in place.model.prompt()


def test_a_search_that_is_continued_asks_as_before_and_shows_no_note_twice(tmp_path: Path) -> None:
    with create_run(tmp_path) as run:
        place = Place(run)
        place.leave("hello")
        place.leave("always", standing=True)
        place.step(1)
        place.lower("unrolling")
        recorded = run.recorded(QUESTION, next(e.key for e in run.events if e.kind == QUESTION))
    with open_run(tmp_path, run.name, writing=True) as run:
        again = Place(run)
        again.step(1)
        again.step(2)
        prompt = again.lower("fast_math")
        assert "hello" not in prompt and "always" in prompt
        assert again.model.asked == ["lowerer"], "what was answered is not asked again"
    assert recorded is not None


def test_a_long_note_takes_the_room_of_what_matters_less(tmp_path: Path) -> None:
    large = case("largest")
    with create_run(tmp_path) as run:
        place = Place(run)
        scene = place.policy.scene
        about = Lowering(large.candidate, "unrolling", place.target, large.profile, FLOOR_BYTES)
        lower(scene, about, {})
        without = place.model.prompt()
        place.leave("word " * (LONGEST_NOTE // 5))
        place.step(1)
        lower(scene, Lowering(large.candidate, "fast_math", place.target, large.profile, FLOOR_BYTES), {})
        assert HEADING in place.model.prompt()
        assert tokens_of(place.model.prompt()) < tokens_of(without) + 500
