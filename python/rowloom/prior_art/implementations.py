"""What is measured: rowloom in each of its modes, and what else is there.

An implementation that is absent, or fails where it is first tried, is data with its reason.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rowloom.prior_art.inputs import CHUNKS, DTYPE, ROWS
from rowloom.prior_art.layouts import MODALITIES

Run = Callable[[Tensor, Tensor, Tensor], Sequence[Tensor]]
"""Table, timestep, modality to six outputs, each (S, H)."""


@dataclass(frozen=True)
class Planned:
    """How an implementation makes plans, and calls itself with one."""

    plan: Callable[[Tensor, Tensor], Any]
    """Timestep and modality to a plan."""
    run: Callable[[Any], Run]
    """A call that uses this plan."""


@dataclass(frozen=True)
class Implementation:
    """One way to call the op."""

    source: str
    """What runs, in words."""
    run: Run
    sized: Callable[[], Run] | None = None
    """Makes the call that accuracy and times are taken of, where that is another than `run`."""
    planned: Planned | None = None
    mode: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext
    """Entered around calls, outside of what is timed."""
    forget: Callable[[], None] = lambda: None
    """Drops what earlier calls have left behind, such as cached plans."""
    stats: Callable[[], dict[str, int]] | None = None
    """Counts of what it keeps between calls."""

    def timed(self) -> Run:
        """The call that accuracy and times are taken of."""
        return self.run if self.sized is None else self.sized()


@dataclass(frozen=True)
class Unavailable:
    """Why an implementation cannot run here, in one sentence."""

    reason: str


Entry = Implementation | Unavailable


def because(error: BaseException) -> Unavailable:
    """What an error says in its first line."""
    lines = str(error).strip().splitlines()
    return Unavailable(f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__)


def diffusers(table: Tensor, timestep: Tensor, modality: Tensor) -> Sequence[Tensor]:
    """Whole rows by one `index_select`; the outputs are views of them."""
    return table.index_select(0, timestep * MODALITIES + modality).chunk(CHUNKS, dim=1)


def diffusers_six(table: Tensor, timestep: Tensor, modality: Tensor) -> Sequence[Tensor]:
    """One `index_select` for each chunk."""
    rows = timestep * MODALITIES + modality
    return [chunk.index_select(0, rows) for chunk in table.chunk(CHUNKS, dim=1)]


def _diffusers(_: torch.device) -> Implementation:
    return Implementation("one index_select of whole rows, outputs are views of its result", diffusers)


def _diffusers_six(_: torch.device) -> Implementation:
    return Implementation("six index_select calls, one on each chunk of the table", diffusers_six)


def _torch_compile(device: torch.device) -> Implementation:
    import torch._dynamo
    import torch._functorch.config

    # Else a backward may run once: its own is timed again and again on one graph.
    torch._functorch.config.donated_buffer = False
    # Each S and each need of gradients is a specialisation of its own when it is timed.
    torch._dynamo.config.recompile_limit = 64

    def sized() -> Run:
        torch.compiler.reset()
        compiled: Run = torch.compile(diffusers, fullgraph=True, dynamic=False)
        return compiled

    run: Run = torch.compile(diffusers, fullgraph=True)
    table = torch.zeros(ROWS, CHUNKS * 8, dtype=DTYPE, device=device, requires_grad=True)
    index = torch.zeros(4, dtype=torch.int64, device=device)
    outputs = run(table, index, index)
    torch.autograd.backward(outputs, [torch.ones_like(output) for output in outputs])
    return Implementation(
        "torch.compile(fullgraph=True) of diffusers; checks with its own choice of dynamic shapes, accuracy and "
        "times with dynamic=False; compiled before what is timed, with functorch's donated_buffer off: a backward "
        "that may free what its forward saved runs once, and bwd_us is of one graph",
        run,
        sized=sized,
    )


def _rl_kernel(_: torch.device) -> Implementation:
    from rl_engine.kernels.ops.cuda.h3.adaln_row_gather import H3AdaLNRowGatherCudaOp

    return Implementation("rl-kernel H3AdaLNRowGatherCudaOp", H3AdaLNRowGatherCudaOp())


def _rowloom(source: str, *, accumulate: str | None = None, check: str | None = None) -> Implementation:
    import rowloom.torch as api

    function: Any = api.adaln_row_gather
    if accumulate is not None:
        function = function.with_order(accumulate=accumulate)
    planned = Planned(
        plan=lambda timestep, modality: function.plan(timestep, modality, rows=ROWS),
        run=lambda plan: lambda table, timestep, modality: function(table, timestep, modality, plan=plan),
    )
    mode: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext
    run: Run = function
    if check is not None:
        mode = lambda: api.auto_plans(False)  # noqa: E731

        def run(table: Tensor, timestep: Tensor, modality: Tensor) -> Sequence[Tensor]:
            outputs: Sequence[Tensor] = function(table, timestep, modality, check=check)
            return outputs

    return Implementation(
        source,
        run,
        planned=planned if check is None else None,
        mode=mode,
        forget=api.clear_plans,
        stats=lambda: dict(api.plan_stats()._asdict()),
    )


MAKERS: dict[str, Callable[[torch.device], Implementation]] = {
    "rowloom": lambda _: _rowloom("rowloom, planned automatically, sums in blocks of 256 in f32"),
    "rowloom_f64": lambda _: _rowloom(
        "rowloom, planned automatically, sums in blocks of 256 in f64", accumulate="float64"
    ),
    "rowloom_checked": lambda _: _rowloom("rowloom without plans, indices checked and waited for", check="now"),
    "rowloom_deferred": lambda _: _rowloom("rowloom without plans, the check of indices deferred", check="deferred"),
    "diffusers": _diffusers,
    "diffusers_six": _diffusers_six,
    "torch_compile": _torch_compile,
    "rl_kernel": _rl_kernel,
}
"""How each implementation is made on a device, in the order of the report."""


def make(names: Sequence[str], device: torch.device) -> dict[str, Entry]:
    """These implementations, or why they cannot be had."""
    entries: dict[str, Entry] = {}
    for name in names:
        try:
            entries[name] = MAKERS[name](device)
        # Whatever another package raises while it is imported or compiled, the others still run.
        except Exception as error:  # noqa: BLE001
            entries[name] = because(error)
    return entries
