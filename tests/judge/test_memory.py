"""How much memory the judge itself takes, counted tensor by tensor on the fake device."""

import weakref

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kernelblaster.judge import memory_check, precision
from kernelblaster.tasks import values


class LiveBytes(TorchDispatchMode):
    """Bytes of all storages that were made inside and are still alive; `peak` is the most."""

    def __init__(self, *known: torch.Tensor) -> None:
        super().__init__()
        self.live: dict[int, int] = {}
        self.known = {tensor.untyped_storage()._cdata for tensor in known}
        self.peak = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, list | tuple) else [result]:
            if isinstance(tensor, torch.Tensor):
                self._see(tensor.untyped_storage())
        return result

    def _see(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        if key in self.live or key in self.known:
            return
        self.live[key] = storage.nbytes()
        weakref.finalize(storage, self.live.pop, key, None)
        self.peak = max(self.peak, sum(self.live.values()))


PIECE = 1 << 12
FEW = 24 * 8 * PIECE


def test_comparing_keeps_nothing_but_its_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "PIECE", PIECE)
    monkeypatch.setattr(precision, "SAMPLE", 1 << 10)
    truth = torch.randn(1 << 20, dtype=torch.float64)
    output = truth.float()
    with LiveBytes(truth, output) as live:
        precision.compare(output, truth)
    assert live.peak < FEW < truth.nbytes / 4


def test_filling_keeps_nothing_but_its_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    from kernelblaster.records import Tensor, Workload

    monkeypatch.setattr(values, "PIECE", PIECE)
    tensor = Tensor(name="x", role="input", dtype="float32", dims=("n",))
    workload = Workload(name="primary", sizes={"n": 1 << 18})
    pool = values.pool_of(torch.randn(1000), tensor, workload)
    target = torch.empty(1 << 18)
    for distribution in ("written", "scaled", "shifted", "ramp", "spiky"):
        with LiveBytes(target, pool.values) as live:
            values.fill(target, pool, distribution, workload, 1)  # type: ignore[arg-type]
        assert live.peak < FEW


def test_hashes_need_nothing_but_their_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_check, "PIECE", PIECE)
    raw = torch.randint(0, 255, (1 << 22,), dtype=torch.uint8)
    with LiveBytes(raw) as live:
        memory_check.keyed_hash(raw, 7)
    assert live.peak < raw.nbytes / 8


@pytest.mark.parametrize("length", [1, 7, 8, 9, 4096, 4099])
def test_every_change_changes_the_hash(length: int) -> None:
    generator = torch.Generator().manual_seed(length)
    raw = torch.randint(0, 255, (length,), dtype=torch.uint8, generator=generator)
    before = memory_check.keyed_hash(raw, 7)
    assert torch.equal(before, memory_check.keyed_hash(raw.clone(), 7))
    assert not torch.equal(before, memory_check.keyed_hash(raw, 8))
    for place in {0, length // 2, length - 1}:
        changed = raw.clone()
        changed[place] ^= 1
        assert not torch.equal(before, memory_check.keyed_hash(changed, 7))


def test_a_change_that_keeps_all_sums_is_seen() -> None:
    words = torch.arange(4096, dtype=torch.int64)
    before = memory_check.keyed_hash(words.view(torch.uint8), 7)
    square = words.clone().view(64, 64)
    square[3, 5] += 9
    square[3, 6] -= 9
    square[4, 5] -= 9
    square[4, 6] += 9
    assert not torch.equal(before, memory_check.keyed_hash(square.view(-1).view(torch.uint8), 7))
