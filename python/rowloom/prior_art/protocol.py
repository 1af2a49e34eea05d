"""The published protocol: which batches, which seeds, how often. Nothing here runs anything."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

BATCH_SIZES = (
    *(1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129),
    *(255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 2047, 2048),
)
"""Sizes of the published sweep."""

STARTS = 512
"""Most sub-batches of one small size."""

LARGE = 1024
"""Size from which on sub-batches lie side by side."""


@dataclass(frozen=True)
class Protocol:
    """Everything that decides what a report measures, and that it records."""

    positions: tuple[int, ...]
    """S of accuracy and time, ascending."""
    all_rows: tuple[int, ...] = (64, 257, 2048)
    """Batches of which each position is run alone."""
    seeds: tuple[int, ...] = (3, 4, 5)
    """Seeds of those and of the sweep."""
    full_batch: int = 131_072
    """Positions of the batch that is cut into sub-batches."""
    sub_batch_sizes: tuple[int, ...] = (1, 7, 4097, 32768, 65536)
    full_batch_seeds: tuple[int, ...] = (3, 4)
    sweep_batch: int = 2048
    """Positions of the batch that the sweep takes its probes from."""
    batch_sizes: tuple[int, ...] = BATCH_SIZES
    layout_seed: int = 11
    """Seed of the layout and the table of accuracy and time."""
    gradient_seed: int = 9
    """Seed of the gradients of accuracy."""
    warm_up: int = 20
    """Calls before the first timed one."""
    timed_runs: int = 100
    """Timed calls, of which the median is reported."""
    rounds: int = 5
    """Turns of each implementation among which its timed calls are spread."""
    gradient_positions: int | None = None
    repeats: int = 100
    """Runs whose table gradients are compared with the first."""

    @staticmethod
    def quick(positions: tuple[int, ...]) -> Protocol:
        """The same checks on small batches, and fewer runs."""
        return Protocol(
            positions=positions,
            all_rows=(17, 64),
            full_batch=256,
            sub_batch_sizes=(1, 7, 64),
            sweep_batch=64,
            batch_sizes=tuple(size for size in BATCH_SIZES if size <= 64),
            warm_up=3,
            timed_runs=20,
            rounds=4,
            repeats=20,
            gradient_positions=min(positions),
        )

    def gradient_size(self) -> int:
        """S at which table gradients are compared: the largest, unless it is said."""
        return self.gradient_positions or max(self.positions)

    def probe_rows(self) -> tuple[int, ...]:
        """Positions of the sweep's batch that are looked at."""
        n = self.sweep_batch
        return (0, *(n // 8 + 3 + k * n // 8 for k in range(6)), n - 1)

    @staticmethod
    def placements(size: int) -> tuple[int, ...]:
        """Where in a batch of `size` a probe is put: first, middle, last, without repeats."""
        return tuple(dict.fromkeys((0, (size - 1) // 2, size - 1)))

    def starts(self, size: int) -> range:
        """Where the sub-batches of `size` begin; the last one may be cut short."""
        step = max(size, self.full_batch // STARTS) if size < LARGE else size
        return range(0, self.full_batch, step)

    def sub_batches(self) -> int:
        """Sub-batches of all sizes and seeds."""
        return sum(len(self.starts(size)) for size in self.sub_batch_sizes) * len(self.full_batch_seeds)

    def comparisons(self) -> int:
        """Comparisons of the sweep: each probe at each place in each size, and in the batch reversed."""
        placements = sum(len(self.placements(size)) for size in self.batch_sizes)
        return len(self.seeds) * len(self.probe_rows()) * (placements + 1)

    def calls(self) -> int:
        """Calls of the checks of one implementation that are compared, repeats and single rows left out."""
        alone = sum(self.all_rows) * len(self.seeds)
        return alone + self.sub_batches() + self.comparisons()

    def record(self) -> dict[str, Any]:
        """As a report states it."""
        fields = dataclasses.asdict(self)
        fields["gradient_positions"] = self.gradient_size()
        return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}
