"""Recipes: what they are called where not all of their parts apply."""

from kernelblaster.records.recipe import Recipe

RECIPE = Recipe(("cache_hints", "kernel_fusion", "unrolling"))


def test_a_recipe_of_which_one_part_applied_is_that_technique() -> None:
    assert RECIPE.done(["cache_hints"], []) == "cache_hints"


def test_parts_that_did_not_apply_are_not_in_the_name() -> None:
    assert RECIPE.done(["cache_hints", "unrolling"], []) == "cache_hints + unrolling"


def test_parts_that_had_been_applied_before_are_in_the_name() -> None:
    assert RECIPE.done(["cache_hints", "unrolling"], ["kernel_fusion", "fast_math"]) == str(RECIPE)


def test_what_is_applied_in_every_recipe_is_named_where_nothing_else_is_left() -> None:
    applied = ["algebraic_simplification", "kernel_fusion"]
    assert RECIPE.done(applied, []) == "algebraic_simplification + kernel_fusion"
