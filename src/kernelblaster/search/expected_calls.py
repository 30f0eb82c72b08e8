"""`expected_calls` estimates before a search how often it will ask a language model in each role."""

from kernelblaster.models.estimate import Expected
from kernelblaster.policies.llm.roles import LEARNING, TOKENS, Cast, Role
from kernelblaster.search.names import BY_ROLES, REMEMBERS, StrategyName
from kernelblaster.sessions.settings import Search

FAILING = 0.4  # of the candidates of a model, the share that is corrected once
STATES_A_STEP = 0.5  # new pairs of kernel and state that a step meets
WHOLE_PROFILES = 3  # times longer is a prompt with every metric than one with a digest
ITERATIONS_USED = 0.5  # of those allowed: searches mostly end before


def expected_calls(search: Search, strategy: StrategyName, cast: Cast) -> list[Expected]:
    """Returns, for each role (kind of question) that a language model plays, how many calls a search with the
    settings `search` should take and how many tokens each call has. `strategy` is the way to search; `cast`
    says which roles a model plays. A search that ends early asks less; one in which most candidates fail asks
    more."""
    counts = _counts(search, strategy)
    if strategy not in REMEMBERS:
        cast = cast.without(LEARNING)
    played = {role: calls for role, calls in counts.items() if cast.llm(role) or strategy not in BY_ROLES}
    longer = 1 if strategy in REMEMBERS else WHOLE_PROFILES
    return [
        Expected(role, max(1, round(calls)), longer * TOKENS[role].usual_prompt, TOKENS[role].usual_answer)
        for role, calls in played.items()
        if calls
    ]


def _counts(search: Search, strategy: StrategyName) -> dict[Role, float]:
    """How many calls each role of a search (like "proposer") should take, by its limits and its strategy,
    whether a model or the built-in expert plays the role."""
    iterations = max(1.0, search.iterations * ITERATIONS_USED)
    steps = iterations * search.steps * search.rollouts
    if strategy == "zero-shot":
        return {"initial-writer": search.rollouts, "soft-verifier": 1}
    if strategy not in BY_ROLES:
        return {"lowerer": min(search.evaluations, steps * (1 + FAILING)), "soft-verifier": 1}
    lowered = min(search.evaluations, steps * search.choices * (1 + FAILING))
    places = min(steps, lowered / search.choices)
    return {
        "initial-writer": 1 + FAILING,
        "state-extractor": places,
        "state-matcher": places * STATES_A_STEP,
        "proposer": places * STATES_A_STEP,
        "lowerer": lowered,
        "soft-verifier": 1,
        "policy-evaluator": iterations,
        "gap-analyst": iterations,
        "knowledge-updater": iterations,
    }
