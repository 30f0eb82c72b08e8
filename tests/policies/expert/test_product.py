"""Matrix products are seen as such: rows, columns, batch, inner axis, and how operands lie in memory."""

import pytest

from kernelblaster.api import load_task
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.product import Product, as_product


def products_of(name: str) -> list[Product | None]:
    plan = initial_plan(capture(load_task(name)))
    return [as_product(kernel, plan) for kernel in plan.kernels if kernel.family == "matrix_product"]


@pytest.mark.parametrize(
    ("name", "left", "right"),
    [
        ("matmul_square", "k", "i1"),
        ("matmul_a_transposed", "i0", "i1"),
        ("matmul_b_transposed", "k", "k"),
        ("matmul_both_transposed", "i0", "k"),
        ("matmul_batched", "k", "i2"),
    ],
)
def test_the_axis_along_memory_is_found_in_every_layout(name: str, left: str, right: str) -> None:
    product = products_of(f"core/level1/{name}")[0]
    assert product is not None
    assert product.left.along is not None and product.left.along.name == left
    assert product.right.along is not None and product.right.along.name == right


def test_axes_of_one_operand_only_are_rows_or_columns() -> None:
    batched, broadcast = (
        products_of("core/level1/matmul_batched")[0],
        products_of("core/level3/mixer_block")[0],
    )
    assert batched is not None and broadcast is not None
    assert [axis.name for axis in batched.batch] == ["i0"]
    assert broadcast.batch == ()
    assert [axis.name for axis in broadcast.rows] == ["i0", "i1"]


def test_heads_lie_in_packs_where_their_size_allows_it() -> None:
    product = products_of("core/level3/causal_attention_block")[1]
    assert product is not None
    assert "x_2 / 12" in [str(index) for index in product.left.aligned]


def test_a_product_with_a_vector_is_something_else() -> None:
    assert not any(products_of("core/level1/matmul_vector"))
