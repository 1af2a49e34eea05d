"""Memory: what a call of a GPU needs beyond its inputs, outputs and gradients, and whether a CPU has enough at all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from rowloom.prior_art.implementations import Implementation, Run
from rowloom.prior_art.inputs import Batch, Case


def _bytes(tensors: Sequence[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def peak_extra_bytes(
    implementation: Implementation, run: Run, batch: Batch, gradients: Sequence[Tensor]
) -> dict[str, int]:
    """By the high-water marks of torch's allocator: scratch memory, plans, copies.

    What an implementation keeps between calls is dropped before and so counted.
    """
    table = batch.table.detach().requires_grad_()
    run(table, batch.timestep, batch.modality)
    torch.cuda.synchronize()
    implementation.forget()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    outputs = tuple(run(table, batch.timestep, batch.modality))
    forward = torch.cuda.max_memory_allocated() - before - _bytes(outputs)
    torch.cuda.reset_peak_memory_stats()
    (gradient,) = torch.autograd.grad(outputs, table, tuple(gradients))
    backward = torch.cuda.max_memory_allocated() - before - _bytes(outputs) - _bytes([gradient])
    return {"forward": max(0, forward), "backward": max(0, backward)}


def available_bytes() -> int | None:
    """What the system can give without swapping; None where it does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    line = next((line for line in lines if line.startswith("MemAvailable:")), None)
    return None if line is None else int(line.split()[1]) << 10


def shortage(case: Case, positions: int) -> str | None:
    """Why a CPU cannot measure so many positions, in one sentence: a system that is short of memory ends the process
    without a word, where a GPU's allocator says so."""
    available = available_bytes()
    if case.device.type == "cuda" or available is None:
        return None
    # Two indices of int64, outputs and gradients; copies that come and go are not counted.
    least = positions * (2 * 8 + 2 * case.bytes_per_position())
    if least <= available:
        return None
    return (
        f"S = {positions} with H = {case.hidden} takes {least >> 30} GiB and more, and {available >> 30} are there; "
        "ask for less with --positions or --hidden"
    )
