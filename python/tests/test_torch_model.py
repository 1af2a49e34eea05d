"""Two H3-shaped blocks, trained: bytes of loss and gradients do not depend on what else is in the batch.

What is not rowloom's here is written so that it is invariant itself: every matrix product is that of one
sequence, every reduction that of one position or one sequence. So a difference is one of the table's
gradient, and the same model over torch's own gathers shows that the test sees it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_cases import ROWS, normal, packed, same_bytes

import rowloom.torch as rt

COLUMNS = 256
HEADS = 4
LENGTH = 96

Gather = Callable[[Tensor, Tensor, Tensor], Sequence[Tensor]]


def weights(device: str, dtype: torch.dtype) -> list[dict[str, Tensor]]:
    """Of two blocks."""
    shapes = {
        "table": (ROWS, 6 * COLUMNS),
        "qkv": (COLUMNS, 3 * COLUMNS),
        "out": (COLUMNS, COLUMNS),
        "up": (COLUMNS, 2 * COLUMNS),
        "down": (2 * COLUMNS, COLUMNS),
    }
    return [
        {
            name: (normal(shape, seed=10 * block + at) * (0.3 if name == "table" else 0.06)).to(dtype).to(device).requires_grad_()
            for at, (name, shape) in enumerate(shapes.items())
        }
        for block in range(2)
    ]


def normed(x: Tensor) -> Tensor:
    x = x.float()
    return x * torch.rsqrt(x.square().mean(dim=1, keepdim=True) + 1e-6)


def each(sequences: int, x: Tensor, run: Callable[[Tensor], Tensor]) -> Tensor:
    """One sequence at a time."""
    return torch.cat([run(x[at * LENGTH : (at + 1) * LENGTH]) for at in range(sequences)])


def attention(x: Tensor, qkv: Tensor) -> Tensor:
    query, key, value = (x @ qkv).view(LENGTH, 3, HEADS, COLUMNS // HEADS).permute(1, 2, 0, 3)
    scores = torch.softmax((query @ key.transpose(1, 2)).float() / 8.0, dim=-1).to(x.dtype)
    return (scores @ value).transpose(0, 1).reshape(LENGTH, COLUMNS)


def model(blocks: Sequence[dict[str, Tensor]], x: Tensor, timestep: Tensor, modality: Tensor, gather: Gather) -> Tensor:
    sequences = x.shape[0] // LENGTH
    for block in blocks:
        shift, scale, gate, shift_mlp, scale_mlp, gate_mlp = gather(block["table"], timestep, modality)
        y = (normed(x) * (1 + scale) + shift).to(x.dtype)
        attended = each(sequences, y, lambda one, block=block: attention(one, block["qkv"]) @ block["out"])
        x = x + gate * attended
        y = (normed(x) * (1 + scale_mlp) + shift_mlp).to(x.dtype)
        mlp = each(sequences, y, lambda one, block=block: torch.relu(one @ block["up"]) @ block["down"])
        x = x + gate_mlp * mlp
    return x


def sequence(at: int, device: str, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """One sequence of three modalities, at its own timestep."""
    _, _, modality = packed(LENGTH, 1, device, seed=at)
    return normal((LENGTH, COLUMNS), device, dtype, 50 + at), torch.full_like(modality, at % 3), modality


def losses_and_gradients(
    blocks: Sequence[dict[str, Tensor]], parts: Sequence[tuple[Tensor, Tensor, Tensor]], gather: Gather
) -> tuple[list[Tensor], list[Tensor]]:
    """The loss of each sequence, and the tables' gradients of all."""
    x, timestep, modality = (torch.cat(list(each)) for each in zip(*parts, strict=True))
    result = model(blocks, x, timestep, modality, gather)
    losses = [result[at * LENGTH : (at + 1) * LENGTH].float().square().mean() for at in range(len(parts))]
    tables = [block["table"] for block in blocks]
    gradients = torch.autograd.grad(losses, tables)
    return [loss.detach() for loss in losses], list(gradients)


def rows_of(part: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """The table rows of one sequence."""
    return (part[1] * 3 + part[2]).unique()


def differences(device: str, dtype: torch.dtype, gather: Gather) -> int:
    """How many bytes-unequal comparisons there are between a sequence alone and in three batches."""
    blocks = weights(device, dtype)
    parts = [sequence(at, device, dtype) for at in range(3)]
    alone = [losses_and_gradients(blocks, [part], gather) for part in parts]
    differ = 0
    # Sequences are at different timesteps, so they share no row.
    for order in ([0, 1, 2], [2, 0, 1], [1, 2]):
        losses, gradients = losses_and_gradients(blocks, [parts[at] for at in order], gather)
        for where, at in enumerate(order):
            differ += not same_bytes(losses[where], alone[at][0][0])
            mine = rows_of(parts[at])
            for found, expected in zip(gradients, alone[at][1], strict=True):
                differ += not same_bytes(found[mine], expected[mine])
    return differ


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("order", ["float32", "float64"])
def test_a_sequence_trains_the_same_in_every_batch(device: str, dtype: torch.dtype, order: str) -> None:
    assert differences(device, dtype, rt.adaln_row_gather.with_order(accumulate=order)) == 0


def test_other_rows_positions_do_not_matter(device: str) -> None:
    """Packing other rows' positions between and around those of a row changes nothing of its gradient."""
    table, timestep, modality = packed(5000, 64, device, torch.bfloat16)
    cotangents = [normal((5000, 64), device, torch.bfloat16, seed) for seed in range(6)]
    (expected,) = rt.adaln_row_gather.backward(cotangents, table, timestep, modality)
    row = timestep * 3 + modality
    for at in range(ROWS):
        others = torch.randperm(5000, generator=torch.Generator().manual_seed(at)).to(device)
        mine, rest = (row == at).nonzero().flatten(), others[row[others] != at]
        # The row's own positions keep their order; where they stand among the others is drawn.
        places = torch.randperm(5000, generator=torch.Generator().manual_seed(100 + at)).to(device)[: len(mine)].sort().values
        new = torch.empty(5000, dtype=torch.int64, device=device)
        taken = torch.zeros(5000, dtype=torch.bool, device=device)
        taken[places] = True
        new[taken] = mine
        new[~taken] = rest
        (found,) = rt.adaln_row_gather.backward([x[new] for x in cotangents], table, timestep[new], modality[new])
        assert same_bytes(found[at], expected[at])


class LaunchShapedSum(torch.autograd.Function):
    """A gather whose backward sums in halves of the whole batch, as kernels do whose grid follows its size."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, timestep: Tensor, modality: Tensor) -> Any:
        row = timestep * 3 + modality
        ctx.save_for_backward(row)
        return tuple(chunk[row].clone() for chunk in table.chunk(6, dim=1))

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> Any:
        (row,) = ctx.saved_tensors
        stacked = torch.cat(cotangents, dim=1)
        middle = 40 * (1 + stacked.shape[0] // LENGTH)
        halves = []
        for positions in (slice(None, middle), slice(middle, None)):
            halves.append(rt.row_scatter_sum(stacked[positions].contiguous(), row[positions].contiguous(), R=ROWS))
        return halves[0] + halves[1], None, None


def test_a_planted_change_of_order_is_caught(device: str) -> None:
    assert differences(device, torch.bfloat16, LaunchShapedSum.apply) > 0


def test_index_select_on_a_gpu_is_caught(cuda: str) -> None:
    def gather(table: Tensor, timestep: Tensor, modality: Tensor) -> Sequence[Tensor]:
        row = timestep * 3 + modality
        return [chunk.index_select(0, row) for chunk in table.chunk(6, dim=1)]

    # Its backward adds by atomics, in any order: a run may be lucky, many are not.
    assert any(differences(cuda, torch.bfloat16, gather) > 0 for _ in range(10))
