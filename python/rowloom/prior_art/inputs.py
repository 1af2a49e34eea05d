"""The inputs of a call, made by named generators from a seed."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rowloom.prior_art.layouts import MODALITIES, TIMESTEPS, indices

ROWS = TIMESTEPS * MODALITIES
CHUNKS = 6
DTYPE = torch.bfloat16

GENERATOR = (
    "table: torch.Generator(device).manual_seed(seed), float32 normal * 0.1 rounded to bf16; gradients: the same "
    "generator and another seed, normal rounded to bf16, one after the other; interleaved: torch.Generator('cpu')"
    ".manual_seed(seed), randint of all timesteps, then of all tags; other layouts are runs without a generator"
)


CPU_BYTES = 1 << 30
"""Of outputs of the largest batch that a CPU compares, at once."""


@dataclass(frozen=True)
class Case:
    """What is measured: a device, H and a layout."""

    device: torch.device
    hidden: int
    layout: str

    def bytes_per_position(self) -> int:
        """Of the six outputs, or of their gradients."""
        return CHUNKS * self.hidden * DTYPE.itemsize

    def columns_at_once(self, positions: int) -> int:
        """Columns of a chunk that outputs of so many positions have at once: on a GPU all, on a CPU what a GiB holds."""
        if self.device.type == "cuda":
            return self.hidden
        return max(1, min(self.hidden, CPU_BYTES // (positions * CHUNKS * DTYPE.itemsize)))

    def batch(self, positions: int, seed: int) -> Batch:
        """The inputs of this seed."""
        generator = torch.Generator(self.device).manual_seed(seed)
        shape = (ROWS, CHUNKS * self.hidden)
        table = torch.randn(shape, generator=generator, device=self.device) * 0.1
        timestep, modality = indices(self.layout, positions, seed)
        return Batch(table.to(DTYPE), timestep.to(self.device), modality.to(self.device))

    def gradients(self, positions: int, seed: int) -> list[Tensor]:
        """Six normal gradients, each (S, H)."""
        generator = torch.Generator(self.device).manual_seed(seed)
        shape = (positions, self.hidden)
        return [torch.randn(shape, generator=generator, device=self.device).to(DTYPE) for _ in range(CHUNKS)]


@dataclass(frozen=True)
class Batch:
    """The inputs of one call."""

    table: Tensor
    """(9, 6·H), bf16."""
    timestep: Tensor
    """(S,), int64."""
    modality: Tensor
    """(S,), int64."""

    def columns(self, columns: slice) -> Batch:
        """The same call on these columns of each chunk."""
        chunks = self.table.view(ROWS, CHUNKS, -1)[:, :, columns]
        return Batch(chunks.reshape(ROWS, -1), self.timestep, self.modality)

    def select(self, positions: Tensor) -> Batch:
        """The same call for these positions, in this order."""
        return Batch(self.table, self.timestep.index_select(0, positions), self.modality.index_select(0, positions))

    def rows(self) -> Tensor:
        """The table row of each position, (S,) int64."""
        return self.timestep * MODALITIES + self.modality
