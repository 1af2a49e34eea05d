"""A small run of the published protocol with implementations that are planted, for its tests."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rowloom.prior_art.implementations import Implementation, diffusers
from rowloom.prior_art.inputs import Case
from rowloom.prior_art.measure import Measured, measure
from rowloom.prior_art.progress import Progress
from rowloom.prior_art.protocol import Protocol

HERE = Path(__file__).resolve()
DATA = "crates/cli/data/adaln_row_gather_b200.json"
# The suite runs a copy of the tests further down in the repository; a bundle runs without one.
REPOSITORY = next((folder for folder in HERE.parents if (folder / DATA).is_file()), HERE.parents[2])

HIDDEN = 8
CASE = Case(torch.device("cpu"), HIDDEN, "interleaved")

TINY = Protocol(
    positions=(33, 130),
    all_rows=(5, 9),
    full_batch=64,
    sub_batch_sizes=(1, 7, 32),
    sweep_batch=16,
    batch_sizes=(1, 2, 3, 8, 16),
    warm_up=1,
    timed_runs=4,
    rounds=2,
    repeats=3,
)


class _Gradient(torch.autograd.Function):
    """Outputs of `diffusers`, and a table gradient that goes through `change`."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, table: Tensor, timestep: Tensor, modality: Tensor, change: Callable[[Tensor, Tensor], Tensor]
    ) -> tuple[Tensor, ...]:
        rows = timestep * 3 + modality
        ctx.save_for_backward(rows)
        ctx.change, ctx.shape = change, table.shape
        return tuple(chunk.clone() for chunk in table.index_select(0, rows).chunk(6, dim=1))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (rows,) = ctx.saved_tensors
        whole = torch.cat(gradients, dim=1)
        exact = torch.zeros(ctx.shape, dtype=torch.float64).index_add_(0, rows, whole.double())
        return ctx.change(exact, rows).to(whole.dtype), None, None, None


def with_gradient(change: Callable[[Tensor, Tensor], Tensor]) -> Implementation:
    """Right outputs; the exact table gradient goes through `change(exact, rows)`."""

    def run(table: Tensor, timestep: Tensor, modality: Tensor) -> Sequence[Tensor]:
        outputs: Sequence[Tensor] = _Gradient.apply(table, timestep, modality, change)  # type: ignore[no-untyped-call]
        return outputs

    return Implementation("planted", run)


def right() -> Implementation:
    """The op."""
    return Implementation("one index_select", diffusers)


def measured(**implementations: Any) -> Measured:
    """A tiny run of these."""
    return measure(implementations, CASE, TINY, True, Progress(io.StringIO()))
