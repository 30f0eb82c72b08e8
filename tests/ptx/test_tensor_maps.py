"""Copies by tensor maps give what indexing in PyTorch gives: tiles, swizzles, what lies outside, im2col."""

import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch.nn.functional import conv2d, pad

from kernelblaster.ptx.machine import InvalidLaunch, Machine, Module, NotEmulated, Report

SOURCE = Path(__file__).parent / "tensor_maps.cu"
FLOAT32, BFLOAT16 = 7, 9  # CUtensorMapDataType
ROWS, COLS = 20, 52


@pytest.fixture(scope="module")
def text(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    target = tmp_path_factory.mktemp("tensor_maps") / "k.ptx"
    command = [compiler, "-O3", "-lineinfo", "-arch=compute_90", "-ptx", str(SOURCE), "-o", str(target)]
    subprocess.run(command, check=True)
    return target.read_text()


@pytest.fixture
def machine() -> Iterator[Machine]:
    with Machine() as opened:
        yield opened


@pytest.fixture
def module(machine: Machine, text: str) -> Module:
    return machine.load(text)


def pointer(machine: Machine, tensor: torch.Tensor) -> bytes:
    machine.allow(tensor.data_ptr(), tensor.nbytes, "memory")
    return struct.pack("Q", tensor.data_ptr())


def aligned(rows: int, cols: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Random values at an address that is a multiple of 16, as tensor maps need it."""
    return torch.randn(rows, cols).to(dtype).clone()


def tiled(machine: Machine, x: torch.Tensor, box: tuple[int, int], swizzle: int = 0, fill: int = 0) -> bytes:
    kind = FLOAT32 if x.dtype == torch.float32 else BFLOAT16
    about = [kind, 2, x.data_ptr(), 0, swizzle, 0, fill]
    return machine.tensor_map(0, [*about, x.shape[1], x.shape[0], x.stride(0) * x.itemsize, *box, 1, 1])


def launch(module: Module, kernel: str, arguments: list[bytes]) -> Report:
    return module.launch(kernel, (1, 1, 1), (1, 1, 1), arguments)


@pytest.mark.parametrize("at", [(0, 0), (8, 4), (-3, -2), (COLS - 5, ROWS - 3), (COLS, 0), (200, 100)])
@pytest.mark.parametrize("fill", [0, 1])
def test_a_tile_is_what_slicing_gives_and_zero_or_nan_outside(
    machine: Machine, module: Module, at: tuple[int, int], fill: int
) -> None:
    x, out, (width, height) = aligned(ROWS, COLS), torch.zeros(16 * 8), (16, 8)
    arguments = [pointer(machine, out), tiled(machine, x, (width, height), fill=fill)]
    pointer(machine, x)
    numbers = [struct.pack("i", n) for n in (*at, 4 * width * height)]
    report = launch(module, "load", [*arguments, *numbers])
    assert not report.findings
    wide = pad(x, (300, 300, 300, 300), value=float("nan") if fill else 0.0)
    expected = wide[300 + at[1] : 300 + at[1] + height, 300 + at[0] : 300 + at[0] + width]
    assert torch.equal(out.view(height, width).nan_to_num(7.0), expected.nan_to_num(7.0))


@pytest.mark.parametrize(("mode", "width"), [(1, 16), (2, 32), (3, 64)])
def test_swizzled_tiles_lie_as_hardware_puts_them(
    machine: Machine, module: Module, mode: int, width: int
) -> None:
    x, height = aligned(32, 64, torch.bfloat16), 16
    out = torch.zeros(height, width, dtype=torch.bfloat16)
    arguments = [pointer(machine, out), tiled(machine, x, (width, height), swizzle=mode)]
    pointer(machine, x)
    numbers = [struct.pack("i", n) for n in (0, 8, out.nbytes)]
    assert not launch(module, "load", [*arguments, *numbers]).findings
    chunks = width * 2 // 16  # of 16 bytes in a row; they are exchanged by the number of their 128 bytes
    for row in range(height):
        for chunk in range(chunks):
            place = row * width * 2 + chunk * 16
            moved = (place ^ ((place >> 7 & (2**mode - 1)) << 4)) // 2
            assert torch.equal(out.view(-1)[moved : moved + 8], x[8 + row, 8 * chunk : 8 * chunk + 8])


def test_a_stored_tile_leaves_alone_what_is_outside(machine: Machine, module: Module) -> None:
    x = torch.zeros(ROWS, COLS)
    arguments = [tiled(machine, x, (16, 8)), *(struct.pack("i", n) for n in (COLS - 4, ROWS - 2, 128))]
    pointer(machine, x)
    assert not launch(module, "store", arguments).findings
    expected = torch.zeros(ROWS, COLS)
    expected[ROWS - 2 :, COLS - 4 :] = (torch.arange(128.0) + 1).view(8, 16)[:2, :4]
    assert torch.equal(x, expected)


@pytest.mark.parametrize(("stride", "padding"), [(1, 1), (2, 1), (1, 0)])
def test_columns_of_an_image_make_a_convolution(
    machine: Machine, module: Module, stride: int, padding: int
) -> None:
    images, channels, height, width, size = 2, 8, 6, 7, 3
    x = torch.randint(-4, 5, (images, height, width, channels)).float()  # sums of these are exact
    weight = torch.randint(-4, 5, (4, channels, size, size)).float()
    right = conv2d(x.permute(0, 3, 1, 2), weight, stride=stride, padding=padding)
    rows = right.shape[2] * right.shape[3] * images
    upper = padding - (size - 1)
    dims = [channels, width, height, images]
    strides = [4 * channels, 4 * channels * width, 4 * channels * width * height]
    about = [FLOAT32, 4, x.data_ptr(), 0, 0, 0, 0, *dims, *strides]
    corners = [-padding, -padding, upper, upper, channels, rows, 1, stride, stride, 1]
    described = machine.tensor_map(0, [*about, *corners], im2col=True)
    pointer(machine, x)
    total = torch.zeros(rows, 4)
    for down in range(size):
        for across in range(size):
            out = torch.zeros(rows, channels)
            start = (0, -padding, -padding, 0, across, down, rows * channels)
            numbers = [struct.pack("i", n) for n in start]
            assert not launch(module, "columns", [pointer(machine, out), described, *numbers]).findings
            total += out @ weight[:, :, down, across].T
    assert torch.equal(total.view(images, right.shape[2], right.shape[3], 4).permute(0, 3, 1, 2), right)


def test_a_map_that_claims_more_than_there_is(machine: Machine, module: Module) -> None:
    x, out = aligned(ROWS, COLS), torch.zeros(128)
    rows = x[: ROWS - 2]
    about = [FLOAT32, 2, x.data_ptr(), 0, 0, 0, 0, COLS, ROWS, COLS * 4, 16, 8, 1, 1]
    arguments = [pointer(machine, out), machine.tensor_map(0, about)]
    machine.allow(rows.data_ptr(), rows.nbytes, "x")
    report = launch(module, "load", [*arguments, *(struct.pack("i", n) for n in (0, ROWS - 8, 512))])
    assert report.stopped and report.findings[0].kind == "out-of-bounds"


def test_what_nobody_waited_for_is_not_there(machine: Machine, module: Module) -> None:
    x, out = aligned(ROWS, COLS), torch.zeros(1)
    arguments = [pointer(machine, out), tiled(machine, x, (16, 8)), struct.pack("i", 512)]
    pointer(machine, x)
    assert "not-awaited" in [f.kind for f in launch(module, "hasty", arguments).findings]


def test_maps_that_cuda_refuses_or_that_are_not_emulated(machine: Machine) -> None:
    x = aligned(ROWS, COLS)
    good = [FLOAT32, 2, x.data_ptr(), 0, 0, 0, 0, COLS, ROWS, COLS * 4, 16, 8, 1, 1]
    for place, value in ((2, x.data_ptr() + 4), (9, COLS * 4 + 4), (10, 300), (10, 3), (12, 0), (1, 6)):
        with pytest.raises(InvalidLaunch):
            machine.tensor_map(0, [*good[:place], value, *good[place + 1 :]])
    for place, value in ((0, 11), (3, 1), (4, 3)):
        with pytest.raises(NotEmulated):
            machine.tensor_map(0, [*good[:place], value, *good[place + 1 :]])
