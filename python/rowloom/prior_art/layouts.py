"""How a video is packed: for each position a timestep index and a modality tag.

`interleaved` is random at each position; every other layout is a list of runs. Named videos
have a length of their own; any other S gets the same runs in proportion. Runs are those of
`rowloom report`, position for position; the random layout is torch's, as published.
"""

from __future__ import annotations

import torch
from torch import Tensor

TIMESTEPS = 3
MODALITIES = 3
VIDEO, TEXT, AUDIO = 0, 1, 2

Run = tuple[int, int, int]
"""Timestep, modality, length."""

VIDEOS: dict[str, tuple[Run, ...]] = {
    "t2va-4s": ((0, TEXT, 886), (1, AUDIO, 330), (0, VIDEO, 32256)),
    "t2va-15s": ((0, TEXT, 890), (1, AUDIO, 1206), (0, VIDEO, 107_856)),
    "fl2va": ((0, TEXT, 870), (2, VIDEO, 2016), (1, AUDIO, 804), (0, VIDEO, 72576)),
    "ref2va": ((0, TEXT, 870), (2, AUDIO, 804), (2, VIDEO, 72576), (1, AUDIO, 804), (0, VIDEO, 72576)),
}

BLOCK: tuple[Run, ...] = tuple(
    run for timestep in range(TIMESTEPS) for run in ((timestep, TEXT, 1), (timestep, VIDEO, 16), (timestep, AUDIO, 3))
)
"""Runs in twentieths of a timestep."""

NAMES = ("interleaved", "block", *VIDEOS)


def own_positions(layout: str) -> int | None:
    """Positions of the video itself; None where any S is as good as another."""
    runs = VIDEOS.get(layout)
    return sum(length for _, _, length in runs) if runs else None


def runs(layout: str, positions: int) -> list[Run]:
    """The runs of a layout, in their order, stretched to `positions`. Empty ones stay in the list."""
    proportions = BLOCK if layout == "block" else VIDEOS[layout]
    total = sum(length for _, _, length in proportions)
    stretched, done, last = [], 0, 0
    for timestep, modality, length in proportions:
        done += length
        # Ends are rounded, not lengths: the runs always add up to S.
        end = positions * done // total
        stretched.append((timestep, modality, end - last))
        last = end
    return stretched


def indices(layout: str, positions: int, seed: int) -> tuple[Tensor, Tensor]:
    """Timestep and modality of each position, (S,) int64 on the CPU. Only `interleaved` has a use for the seed."""
    if layout == "interleaved":
        generator = torch.Generator("cpu").manual_seed(seed)
        timestep = torch.randint(TIMESTEPS, (positions,), generator=generator)
        return timestep, torch.randint(MODALITIES, (positions,), generator=generator)
    stretched = runs(layout, positions)
    lengths = torch.tensor([length for _, _, length in stretched])
    timesteps = torch.tensor([timestep for timestep, _, _ in stretched])
    modalities = torch.tensor([modality for _, modality, _ in stretched])
    return timesteps.repeat_interleave(lengths), modalities.repeat_interleave(lengths)
