"""What tests of rowloom.torch share: inputs, references that share no code with it, comparisons of bytes."""

from collections.abc import Sequence

import torch
from torch import Tensor

T = 3
ROWS = 3 * T

INTEGERS = {torch.float32: torch.int32, torch.float16: torch.int16, torch.bfloat16: torch.int16}


def same_bytes(found: Tensor, expected: Tensor) -> bool:
    """Whether two tensors hold the same bytes, wherever they are: NaNs and signs of zeros too."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return False
    view = INTEGERS[found.dtype]
    return torch.equal(found.detach().cpu().contiguous().view(view), expected.detach().cpu().contiguous().view(view))


def all_same_bytes(found: Sequence[Tensor], expected: Sequence[Tensor]) -> bool:
    return len(found) == len(expected) and all(map(same_bytes, found, expected))


def packed(
    positions: int, columns: int, device: str = "cpu", dtype: torch.dtype = torch.float32, index: torch.dtype = torch.int64, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """A table (9, 6·H), and timestep and modality of every position."""
    generator = torch.Generator().manual_seed(seed)
    table = torch.randn(ROWS, 6 * columns, generator=generator).to(dtype)
    timestep = torch.randint(0, T, (positions,), generator=generator).to(index)
    modality = torch.randint(0, 3, (positions,), generator=generator).to(index)
    return table.to(device), timestep.to(device), modality.to(device)


def normal(shape: Sequence[int], device: str = "cpu", dtype: torch.dtype = torch.float32, seed: int = 1) -> Tensor:
    """The same values on every device."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype).to(device)


def gathered(table: Tensor, timestep: Tensor, modality: Tensor) -> list[Tensor]:
    """What torch gathers."""
    row = timestep.long() * 3 + modality.long()
    return [chunk[row] for chunk in table.chunk(6, dim=1)]


def summed(rows: Tensor, row: Tensor, count: int, block: int = 256) -> Tensor:
    """The published order of a sum in float32, position by position: blocks of 256 of a row's own positions, folded."""
    result = torch.zeros(count, rows.shape[1], dtype=rows.dtype)
    for at in range(count):
        mine = rows[row == at].float()
        total = torch.zeros(rows.shape[1])
        for start in range(0, mine.shape[0], block):
            chain = torch.zeros(rows.shape[1])
            for position in mine[start : start + block]:
                chain = chain + position
            total = total + chain
        result[at] = total.to(rows.dtype)
    return result
