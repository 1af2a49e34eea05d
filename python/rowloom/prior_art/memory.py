"""Device memory that a call needs beyond its inputs, outputs and gradients."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rowloom.prior_art.implementations import Implementation, Run
from rowloom.prior_art.inputs import Batch


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
