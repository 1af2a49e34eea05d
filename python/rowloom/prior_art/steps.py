"""What is timed of an implementation: each a turn that makes its inputs ready, and gives the call."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from rowloom.prior_art.clock import Call, Turn
from rowloom.prior_art.implementations import Implementation, Run
from rowloom.prior_art.inputs import Batch


def forward(implementation: Implementation, run: Run, batch: Batch) -> Turn:
    """The call on inputs that need no gradient: `fwd_us`."""

    @contextlib.contextmanager
    def turn() -> Iterator[Call]:
        with implementation.mode():
            yield lambda: run(batch.table, batch.timestep, batch.modality)

    return turn


def backward(implementation: Implementation, run: Run, batch: Batch) -> Turn:
    """The backward alone through autograd, its graph kept: `bwd_us`."""

    @contextlib.contextmanager
    def turn() -> Iterator[Call]:
        with implementation.mode():
            table = batch.table.detach().requires_grad_()
            outputs = tuple(run(table, batch.timestep, batch.modality))
            ones = tuple(torch.ones_like(output) for output in outputs)
            yield lambda: torch.autograd.grad(outputs, table, ones, retain_graph=True)

    return turn


def published_step(implementation: Implementation, run: Run, batch: Batch) -> Turn:
    """Clone the table, forward, six gradients of ones, backward: `fwd_bwd_us`."""

    def step() -> None:
        table = batch.table.detach().clone().requires_grad_()
        outputs = run(table, batch.timestep, batch.modality)
        torch.autograd.backward(tuple(outputs), [torch.ones_like(output) for output in outputs])

    @contextlib.contextmanager
    def turn() -> Iterator[Call]:
        with implementation.mode():
            yield step

    return turn
