"""The gradient of the table: a sum over positions, on which the published checks are silent.

Here a table row is compared with the same row when only its own positions are packed, when all
other positions change places, and again and again: every other time without what the call before has
left behind, since a plan that is kept would hide one that comes out otherwise when it is made again.
Schedules are not visible from Python: `rowloom report` compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from rowloom.prior_art.differences import Differences
from rowloom.prior_art.implementations import Implementation, Run
from rowloom.prior_art.inputs import ROWS, Batch


def table_gradient(run: Run, batch: Batch, gradients: Sequence[Tensor]) -> Tensor:
    """(9, 6·H) in the table's type, of one forward and one backward."""
    table = batch.table.detach().requires_grad_()
    outputs = run(table, batch.timestep, batch.modality)
    (gradient,) = torch.autograd.grad(tuple(outputs), table, tuple(gradients))
    return gradient


def check(
    implementation: Implementation, batch: Batch, gradients: Sequence[Tensor], repeats: int, tick: Callable[[int], None]
) -> dict[str, int | None]:
    """Counts of what was compared and of what differed in any byte."""
    run, device = implementation.run, batch.table.device
    first = table_gradient(run, batch, gradients)
    repeated = Differences(repeats, device)
    for slot in range(repeats):
        if slot % 2 == 0:
            implementation.forget()
        repeated.compare(slot, table_gradient(run, batch, gradients), first)
        tick(1)
    isolated, permuted = Differences(ROWS, device), Differences(ROWS, device)
    rows = batch.rows()
    for row in range(ROWS):
        own = (rows == row).nonzero().flatten()
        alone = torch.zeros_like(first[row]) if not own.shape[0] else _row(run, batch, gradients, own, row)
        isolated.compare(row, alone, first[row])
        moved = shuffle_others(rows == row, seed=row)
        permuted.compare(row, _row(run, batch, gradients, moved, row), first[row])
        tick(2)
    return {
        "isolated_rows": ROWS,
        "isolated_rows_differ": sum(isolated.read()),
        "other_rows_permuted": ROWS,
        "other_rows_permuted_differ": sum(permuted.read()),
        "schedules": None,
        "schedules_differ": None,
        "repeats": repeats,
        "repeats_differ": sum(repeated.read()),
    }


def steps(repeats: int) -> int:
    """Steps that `check` tells of."""
    return repeats + 2 * ROWS


def shuffle_others(own: Tensor, seed: int) -> Tensor:
    """All positions, (S,), with those of `own` in place and the others among each other's places."""
    others = (~own).nonzero().flatten()
    generator = torch.Generator("cpu").manual_seed(seed)
    order = torch.randperm(others.shape[0], generator=generator).to(own.device)
    positions = torch.arange(own.shape[0], device=own.device)
    positions[others] = others[order]
    return positions


def _row(run: Run, batch: Batch, gradients: Sequence[Tensor], positions: Tensor, row: int) -> Tensor:
    selected = [gradient.index_select(0, positions) for gradient in gradients]
    return table_gradient(run, batch.select(positions), selected)[row]
