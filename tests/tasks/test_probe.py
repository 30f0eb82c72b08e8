"""Free sizes are found by trying; the module is a plain function of shapes here."""

from kernelblaster.tasks.probe import FreeSize, Probe, Shapes, near_sizes, odd_sizes, tiny_sizes


def matmul(shapes: Shapes) -> Shapes | None:
    (m, k), (k2, n) = shapes
    return ((m, n),) if k == k2 else None


def test_a_square_product_has_three_sizes() -> None:
    sizes = Probe(((64, 64), (64, 64)), matmul).free_sizes()
    assert [s.dimensions for s in sizes] == [((0, 0),), ((0, 1), (1, 0)), ((1, 1),)]


def test_dimensions_of_three_tensors_are_linked() -> None:
    def attention(shapes: Shapes) -> Shapes | None:
        q, k, v = shapes
        same = q[0] == k[0] == v[0] and q[2] == k[2] and k[1] == v[1]
        return ((q[0], q[1], v[2]),) if same else None

    sizes = Probe(((8, 8, 8), (8, 8, 8), (8, 8, 8)), attention).free_sizes()
    groups = {frozenset(s.dimensions) for s in sizes}
    assert groups == {
        frozenset({(0, 0), (1, 0), (2, 0)}),
        frozenset({(0, 1)}),
        frozenset({(0, 2), (1, 2)}),
        frozenset({(1, 1), (2, 1)}),
        frozenset({(2, 2)}),
    }


def test_a_fixed_dimension_is_not_free() -> None:
    def linear(shapes: Shapes) -> Shapes | None:
        return ((shapes[0][0], 7),) if shapes[0][1] == 32 else None

    sizes = Probe(((100, 32),), linear).free_sizes()
    assert [s.dimensions for s in sizes] == [((0, 0),)]


def test_broadcast_dimensions_stay_as_they_are() -> None:
    sizes = Probe(((4, 1),), lambda shapes: shapes).free_sizes()
    assert [s.dimensions for s in sizes] == [((0, 0),)]


def test_divisibility_is_respected() -> None:
    def shuffle(shapes: Shapes) -> Shapes | None:
        return ((shapes[0][0] // 4,),) if shapes[0][0] % 4 == 0 else None

    probe = Probe(((64,),), shuffle)
    (size,) = probe.free_sizes()
    assert size.step == 4
    (odd,) = probe.choose([size], odd_sizes)
    assert odd[0] % 4 == 0 and 8 < odd[0] < 40
    assert probe.choose([size], near_sizes)[0][0] in (60, 68)
    assert probe.choose([size], tiny_sizes)[0][0] == 4


def test_an_empty_output_is_a_refusal() -> None:
    probe = Probe(((8,),), lambda shapes: ((max(0, shapes[0][0] - 4),),))
    size = FreeSize(((0, 0),), 8, 9)
    assert probe.choose([size], lambda p, s: [2, 3, 5]) == ((5,),)
