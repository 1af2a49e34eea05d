"""How far outputs and the table gradient are from the same computed in float64.

A sum of bf16 numbers near 1 is exact in float64 for far more positions than there are: its
order does not matter, and what is rounded once from it is the correctly rounded sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rowloom.prior_art.differences import bits
from rowloom.prior_art.implementations import Run
from rowloom.prior_art.inputs import CHUNKS, ROWS, Batch
from rowloom.prior_art.table_gradient import table_gradient

BYTES_AT_ONCE = 1 << 30
"""Of float64 in memory at once."""


@dataclass(frozen=True)
class Reference:
    """The gradients of one S, and what they sum to."""

    batch: Batch
    gradients: Sequence[Tensor]
    table: Tensor
    """Exact table gradient, (9, 6·H) float64."""
    rounded: Tensor
    """The same rounded once to the table's type."""

    @staticmethod
    def of(batch: Batch, gradients: Sequence[Tensor]) -> Reference:
        """Sums in slices of columns."""
        rows, hidden = batch.rows(), gradients[0].shape[1]
        table = torch.zeros(ROWS, CHUNKS * hidden, dtype=torch.float64, device=rows.device)
        for chunk, gradient in enumerate(gradients):
            for columns in column_slices(gradient):
                at = slice(chunk * hidden + columns.start, chunk * hidden + columns.stop)
                table[:, at].index_add_(0, rows, gradient[:, columns].double())
        return Reference(batch, gradients, table, rounded_to_bf16(table))


def column_slices(tensor: Tensor) -> Iterator[slice]:
    """Slices of the columns of which float64 copies fit into memory."""
    positions, columns = tensor.shape
    width = max(1, BYTES_AT_ONCE // (8 * positions))
    for start in range(0, columns, width):
        yield slice(start, min(columns, start + width))


def rounded_to_bf16(exact: Tensor) -> Tensor:
    """float64 to bf16 with one rounding to nearest even; torch goes by way of float32, which is two."""
    pattern = exact.view(torch.int64)
    dropped = 52 - 7
    odd = (pattern >> dropped) & 1
    kept = ((pattern + (1 << (dropped - 1)) - 1 + odd) >> dropped) << dropped
    # Below 2^-126 bf16 has one distance: the sum with this number has its last bit there.
    fixed = 1.5 * 2.0 ** (52 - 133)
    normal = exact.abs() >= 2.0**-126
    tiny = torch.copysign((exact + fixed) - fixed, exact)
    return torch.where(normal, kept.view(torch.float64), tiny).to(torch.bfloat16)


def relative(error: float, reference: float) -> float:
    """max|err| / max|ref|; a NaN stays one."""
    if error == 0.0:
        return 0.0
    return error / reference if reference else float("inf")


def forward_error(outputs: Sequence[Tensor], batch: Batch) -> float:
    """max|err| / max|ref| of the outputs. The exact output is the table's own number."""
    rows = batch.rows()
    hidden = outputs[0].shape[1]
    errors = [torch.zeros((), dtype=torch.float64, device=rows.device)]
    for chunk, output in enumerate(outputs):
        for columns in column_slices(output):
            at = slice(chunk * hidden + columns.start, chunk * hidden + columns.stop)
            wanted = batch.table[:, at].index_select(0, rows)
            # Equal bytes have no error, and float64 copies of them only take time.
            if (bits(output[:, columns]) != bits(wanted)).any():
                errors.append((output[:, columns].double() - wanted.double()).abs().amax())
    largest = batch.table[torch.bincount(rows, minlength=ROWS) > 0].double().abs().amax()
    # `max` of Python would swallow a NaN; that of torch does not.
    return relative(float(torch.stack(errors).amax()), float(largest))


def measure(run: Run, reference: Reference) -> dict[str, Any]:
    """The keys of one S that say how accurate an implementation is."""
    batch = reference.batch
    with torch.no_grad():
        outputs = run(batch.table, batch.timestep, batch.modality)
        shape = (batch.timestep.shape[0], batch.table.shape[1] // CHUNKS)
        if [tuple(output.shape) for output in outputs] != [shape] * CHUNKS:
            raise ValueError(f"it gave {len(outputs)} outputs, the first {tuple(outputs[0].shape)}; the op has {CHUNKS} of {shape}")
        fwd_rel_err = forward_error(outputs, batch)
        del outputs
    gradient = table_gradient(run, batch, reference.gradients)
    error = (gradient.double() - reference.table).abs().amax()
    equal = bits(gradient) == bits(reference.rounded)
    return {
        "fwd_rel_err": fwd_rel_err,
        "grad_rel_err": {"table": relative(float(error), float(reference.table.abs().amax()))},
        "correctly_rounded": float(equal.double().mean()),
    }
