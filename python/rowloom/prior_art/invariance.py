"""The published checks of batch invariance: the same position in another batch must have the same bytes.

They look at outputs and at gradients with a position axis. This op has none of the latter, so
they say nothing about its backward; `rowgrad_differ` is 0 by that, and `table_gradient` fills the gap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rowloom.prior_art.differences import Differences, RowsOfWhole
from rowloom.prior_art.implementations import Implementation, Run
from rowloom.prior_art.inputs import Batch, Case
from rowloom.prior_art.protocol import Protocol
from rowloom.prior_art.table_gradient import table_gradient

NAMED_FAILURES = 8
REPEATABLE_CALLS = 2

Tick = Callable[[int], None]
"""Told how many comparisons are done."""


@dataclass(frozen=True)
class SubBatch:
    """Some positions of a batch as a call of its own."""

    positions: Tensor
    """(n,) int64, in the order of the call."""
    compare: int | None = None
    """Which position of the call is compared; None for all."""


def all_rows(run: Run, case: Case, protocol: Protocol, tick: Tick) -> dict[str, dict[str, int]]:
    """Each position alone against its batch."""
    result = {}
    for size in protocol.all_rows:
        alone = [SubBatch(torch.tensor([position])) for position in range(size)]
        differ = 0
        for seed in protocol.seeds:
            differ += sum(differing(run, case.batch(size, seed), alone, tick))
        rows = size * len(protocol.seeds)
        result[str(size)] = {"rows": rows, "fwd_differ": differ, "rowgrad_differ": 0}
    return result


def params_repeatable(implementation: Implementation, case: Case, protocol: Protocol) -> bool:
    """Whether equal calls give equal table gradients, at every batch and seed of the check of all rows.

    Each is made without what the one before has left behind.
    """
    run = implementation.run
    kinds = [(size, seed) for size in protocol.all_rows for seed in protocol.seeds]
    found = Differences(len(kinds), case.device)
    for slot, (size, seed) in enumerate(kinds):
        batch, gradients = case.batch(size, seed), case.gradients(size, seed)
        first = table_gradient(run, batch, gradients)
        for _ in range(1, REPEATABLE_CALLS):
            implementation.forget()
            found.compare(slot, table_gradient(run, batch, gradients), first)
    return not any(found.read())


def full_vs_sub(run: Run, case: Case, protocol: Protocol, tick: Tick) -> dict[str, Any]:
    """A large batch against pieces of it."""
    full = protocol.full_batch
    pieces = [
        SubBatch(torch.arange(start, min(full, start + size)))
        for size in protocol.sub_batch_sizes
        for start in protocol.starts(size)
    ]
    flags: list[bool] = []
    width = case.columns_at_once(full)
    for seed in protocol.full_batch_seeds:
        batch = case.batch(full, seed)
        of_seed = [False] * len(pieces)
        for start in range(0, case.hidden, width):
            part = batch.columns(slice(start, start + width)) if width < case.hidden else batch
            last = start + width >= case.hidden
            found = differing(run, part, pieces, tick if last else lambda _: None)
            of_seed = [known or differs for known, differs in zip(of_seed, found, strict=True)]
        flags += of_seed
    return {
        "full_batch": full,
        "sub_batch_sizes": list(protocol.sub_batch_sizes),
        "sub_batches": len(flags),
        "fwd_differ": sum(flags),
        "rowgrad_differ": 0,
    }


def sweep(run: Run, case: Case, protocol: Protocol, tick: Tick) -> dict[str, Any]:
    """Probes in batches of many sizes, at several places among other positions."""
    comparisons, failures = 0, []
    for seed in protocol.seeds:
        calls = list(sweep_calls(protocol, seed))
        flags = differing(run, case.batch(protocol.sweep_batch, seed), calls, tick)
        comparisons += len(flags)
        for call, differs in zip(calls, flags, strict=True):
            if differs and call.compare is not None:
                failures.append(
                    {
                        "seed": seed,
                        "batch": call.positions.shape[0],
                        "position": call.compare,
                        "row": int(call.positions[call.compare]),
                    }
                )
    return {
        "batch_sizes": list(protocol.batch_sizes),
        "probe_rows": list(protocol.probe_rows()),
        "comparisons": comparisons,
        "differ": len(failures),
        "first_failures": failures[:NAMED_FAILURES],
    }


def sweep_calls(protocol: Protocol, seed: int) -> Iterator[SubBatch]:
    """The calls of one seed of the sweep; the other positions are a random choice without repeats."""
    whole = protocol.sweep_batch
    generator = torch.Generator("cpu").manual_seed(seed)
    for probe in protocol.probe_rows():
        for size in protocol.batch_sizes:
            for place in Protocol.placements(size):
                # Positions other than the probe, numbered without it.
                others = torch.randperm(whole - 1, generator=generator)[: size - 1]
                others = others + (others >= probe)
                yield SubBatch(torch.cat([others[:place], torch.tensor([probe]), others[place:]]), place)
        yield SubBatch(torch.arange(whole - 1, -1, -1), whole - 1 - probe)


def differing(run: Run, batch: Batch, calls: Sequence[SubBatch], tick: Tick) -> list[bool]:
    """For each call whether it differs from the whole batch in any compared output."""
    with torch.no_grad():
        whole = run(batch.table, batch.timestep, batch.modality)
        found = RowsOfWhole(whole, len(calls))
        # One copy to the device for all calls.
        positions = torch.cat([call.positions for call in calls]).to(batch.table.device)
        start = 0
        for slot, call in enumerate(calls):
            rows = positions[start : start + call.positions.shape[0]]
            start += rows.shape[0]
            part = batch.select(rows)
            outputs = run(part.table, part.timestep, part.modality)
            if call.compare is not None:
                compared = slice(call.compare, call.compare + 1)
                rows, outputs = rows[compared], [output[compared].clone() for output in outputs]
            found.add(slot, rows, outputs)
            tick(1)
        return found.read()
