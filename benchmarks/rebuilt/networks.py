"""Which kind a network or loss is of, if its operators do not simply follow one another."""

from collections.abc import Callable

from rebuilt.facts import Problem
from rebuilt.images import dense, fire, inception, residual, shuffle, unet
from rebuilt.sequences import (
    attention,
    causal,
    gru,
    image_attention,
    lstm,
    recurrent_cell,
    triplet,
    vlad,
)
from rebuilt.text import convolutions


def network(problem: Problem) -> Callable[[Problem, bool], str] | None:
    """The kind of a network or loss by what is peculiar to its operators; None if they follow one another."""
    names = {ran.name for ran in problem.operators}
    groups = {ran.arguments[-1] for ran in convolutions(problem)}
    depthwise = any(ran.tensors[1][1] == 1 for ran in convolutions(problem))
    kinds: list[tuple[Callable[[Problem, bool], str], bool]] = [
        (triplet, "norm" in names),
        (attention, any("attention" in name for name in names)),
        (lstm, "mkldnn_rnn_layer" in names),
        (gru, "unsafe_split" in names),
        (recurrent_cell, "copy" in names and "cat" in names),
        (causal, "masked_fill" in names),
        (image_attention, "bmm" in names and "native_layer_norm" in names),
        (vlad, "clamp_min" in names),
        (shuffle, len(groups) > 1 and depthwise and "add" in names),
        (residual, "add" in names and problem.level == 3 and "cat" not in names and "convolution" in names),
        (unet, "cat" in names and any(ran.arguments[6] for ran in convolutions(problem))),
        (dense, "cat" in names and "native_batch_norm" in names),
        (inception, "cat" in names and "max_pool2d_with_indices" in names),
        (fire, "cat" in names),
    ]
    return next((kind for kind, fits in kinds if fits), None)
