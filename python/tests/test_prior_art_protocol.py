"""Counts, seeds and layouts, without running anything."""

import pytest
import torch
from rowloom.prior_art import layouts
from rowloom.prior_art.invariance import sweep_calls
from rowloom.prior_art.protocol import Protocol
from rowloom.prior_art.report import published

RUNS = {
    ("block", 1): [(2, 2, 1)],
    ("block", 17): [(0, 0, 4), (0, 2, 1), (1, 0, 5), (1, 2, 1), (2, 0, 5), (2, 2, 1)],
    ("block", 4097): [
        *((0, 1, 68), (0, 0, 1092), (0, 2, 205)),
        *((1, 1, 68), (1, 0, 1093), (1, 2, 205)),
        *((2, 1, 68), (2, 0, 1093), (2, 2, 205)),
    ],
    ("block", 32768): [
        *((0, 1, 546), (0, 0, 8738), (0, 2, 1638)),
        *((1, 1, 546), (1, 0, 8738), (1, 2, 1639)),
        *((2, 1, 546), (2, 0, 8738), (2, 2, 1639)),
    ],
    ("t2va-4s", 257): [(0, 1, 6), (1, 2, 3), (0, 0, 248)],
    ("t2va-15s", 1): [(0, 0, 1)],
    ("t2va-15s", 257): [(0, 1, 2), (1, 2, 2), (0, 0, 253)],
    ("t2va-15s", 4097): [(0, 1, 33), (1, 2, 45), (0, 0, 4019)],
    ("t2va-15s", 32768): [(0, 1, 265), (1, 2, 359), (0, 0, 32144)],
    ("t2va-15s", 109952): [(0, 1, 890), (1, 2, 1206), (0, 0, 107856)],
    ("fl2va", 4097): [(0, 1, 46), (2, 0, 109), (1, 2, 43), (0, 0, 3899)],
    ("ref2va", 17): [(2, 0, 8), (0, 0, 9)],
    ("ref2va", 4097): [(0, 1, 24), (2, 2, 22), (2, 0, 2014), (1, 2, 22), (0, 0, 2015)],
}
"""What crates/op-adaln/src/layout.rs makes: timestep, tag and length of each run that is not empty."""


@pytest.mark.parametrize(("layout", "positions"), RUNS)
def test_layouts_are_those_of_the_rust_side(layout, positions):
    timestep, modality = layouts.indices(layout, positions, seed=11)
    found = []
    for pair in zip(timestep.tolist(), modality.tolist(), strict=True):
        if found and found[-1][:2] == pair:
            found[-1] = (*pair, found[-1][2] + 1)
        else:
            found.append((*pair, 1))
    assert found == RUNS[layout, positions]
    assert timestep.dtype == modality.dtype == torch.int64


def test_interleaved_is_even_and_depends_on_the_seed_alone():
    timestep, modality = layouts.indices("interleaved", 90_000, seed=11)
    counts = torch.bincount(timestep * 3 + modality, minlength=9)
    assert ((counts > 9_500) & (counts < 10_500)).all()
    again, _ = layouts.indices("interleaved", 90_000, seed=11)
    other, _ = layouts.indices("interleaved", 90_000, seed=12)
    assert torch.equal(timestep, again)
    assert not torch.equal(timestep, other)


def test_full_counts_are_the_published_ones():
    protocol = Protocol((4097, 32768))
    checks = published()["results"]["plain"]["rl_kernel"]["batch_invariance"]
    assert protocol.sub_batches() == checks["full_vs_sub_batches"]["sub_batches"] == 2124
    assert protocol.comparisons() == checks["batch_size_sweep"]["comparisons"] == 2256
    assert list(protocol.probe_rows()) == checks["batch_size_sweep"]["probe_rows"]
    assert list(protocol.batch_sizes) == checks["batch_size_sweep"]["batch_sizes"]
    assert list(protocol.sub_batch_sizes) == checks["full_vs_sub_batches"]["sub_batch_sizes"]
    rows = {str(size): size * len(protocol.seeds) for size in protocol.all_rows}
    assert rows == {size: batch["rows"] for size, batch in checks["all_rows"].items()}
    assert (protocol.warm_up, protocol.timed_runs, protocol.seeds) == (20, 100, (3, 4, 5))


def test_quick_counts():
    protocol = Protocol.quick((257, 4097))
    assert protocol.sub_batches() == 594
    assert protocol.comparisons() == 1176
    assert protocol.probe_rows() == (0, 11, 19, 27, 35, 43, 51, 63)
    assert (protocol.warm_up, protocol.timed_runs) == (3, 20)


def test_placements_are_first_middle_and_last_without_repeats():
    assert [Protocol.placements(size) for size in (1, 2, 3, 2048)] == [(0,), (0, 1), (0, 1, 2), (0, 1023, 2047)]


def test_every_call_of_the_sweep_has_its_probe_once_and_where_it_says():
    protocol = Protocol.quick((257,))
    calls = list(sweep_calls(protocol, seed=3))
    assert len(calls) * len(protocol.seeds) == protocol.comparisons()
    probes = [probe for probe in protocol.probe_rows() for _ in range(49)]
    for call, probe in zip(calls, probes, strict=True):
        positions = call.positions.tolist()
        assert positions[call.compare] == probe
        assert len(set(positions)) == len(positions)
        assert set(positions) <= set(range(64))
    other = list(sweep_calls(protocol, seed=4))
    assert any(not torch.equal(left.positions, right.positions) for left, right in zip(calls, other, strict=True))
