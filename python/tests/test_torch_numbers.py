"""Numbers that have gone wrong elsewhere, through autograd."""

import pytest
import torch
from torch import Tensor
from torch_cases import ROWS, normal, packed, same_bytes

import rowloom.torch as rt

f = rt.adaln_row_gather


def bits(values: list[int], dtype: torch.dtype) -> Tensor:
    """One column of values, given by their bits."""
    integer = torch.int32 if dtype == torch.float32 else torch.int16
    wide = torch.tensor(values, dtype=torch.int64)
    return wide.to(integer).view(dtype).view(-1, 1)


def row_gradient(cotangents: Tensor, device: str) -> Tensor:
    """The gradient of one table row that every position picks."""
    table = torch.zeros(1, cotangents.shape[1], dtype=cotangents.dtype, device=device, requires_grad=True)
    row = torch.zeros(cotangents.shape[0], dtype=torch.int64, device=device)
    (gradient,) = torch.autograd.grad(rt.row_gather(table, row), table, cotangents.to(device))
    return gradient.cpu()


def test_sums_that_stick_in_their_own_type(device: str) -> None:
    hundredths = row_gradient(torch.full((12_500, 1), 0.01, dtype=torch.float16), device)
    assert abs(hundredths.item() - 125.0) < 0.5
    largest = torch.tensor([[65504.0], [65504.0], [-65504.0]], dtype=torch.float16)
    assert row_gradient(largest, device).item() == 65504.0
    assert row_gradient(torch.ones(1000, 1, dtype=torch.bfloat16), device).item() == 1000.0


def test_rounding_is_to_nearest_even(device: str) -> None:
    # 1 + 2^-8 lies between two bf16 numbers, as does 1 + 3·2^-8: to the even one.
    for small, expected in ((2.0**-8, 1.0), (3 * 2.0**-8, 1.015625)):
        cotangents = torch.tensor([[1.0], [small]], dtype=torch.bfloat16)
        assert row_gradient(cotangents, device).item() == expected


def test_moves_keep_every_encoding(device: str) -> None:
    for dtype, values in (
        (torch.bfloat16, [0x7F81, 0xFFC1, 0x8000, 0x0001]),
        (torch.float16, [0x7C01, 0xFE01, 0x8000, 0x0001]),
        (torch.float32, [0x7F800001, 0xFFC00001, 0x80000000, 0x00000001]),
    ):
        table = bits(values, dtype)
        row = torch.tensor([3, 1, 0, 2])
        assert same_bytes(rt.row_gather(table.to(device), row.to(device)), table[row])
        rows = table.clone().to(device).requires_grad_()
        result = rt.row_scatter_sum(rows, row.to(device), R=4)
        (gradient,) = torch.autograd.grad(result, rows, table.to(device))
        assert same_bytes(gradient, table[row])


def test_subnormals_are_kept(device: str) -> None:
    assert same_bytes(row_gradient(bits([1, 1], torch.bfloat16), device), bits([2], torch.bfloat16))
    tiny = torch.tensor([[1.0e-40]])
    assert same_bytes(row_gradient(tiny, device), tiny)


def test_a_nan_stays_in_its_row(device: str) -> None:
    table, timestep, modality = packed(600, 8, device)
    row = timestep * 3 + modality
    cotangents = [normal((600, 8), device, seed=seed) for seed in range(6)]
    (clean,) = f.backward(cotangents, table, timestep, modality)
    cotangents[2] = cotangents[2].clone()
    cotangents[2][row == 4, 5] = float("nan")
    (found,) = f.backward(cotangents, table, timestep, modality)
    place = torch.zeros(ROWS, 48, dtype=torch.bool)
    place[4, 2 * 8 + 5] = True
    assert torch.equal(found.cpu().isnan(), place)
    assert same_bytes(found.cpu()[~place], clean.cpu()[~place])


def test_infinities_and_signs(device: str) -> None:
    assert row_gradient(torch.tensor([[float("inf")], [float("-inf")]]), device).isnan().item()
    assert row_gradient(torch.tensor([[float("inf")], [1.0]]), device).item() == float("inf")
    assert same_bytes(row_gradient(torch.tensor([[-0.0], [-0.0]]), device), torch.tensor([[0.0]]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_row_without_positions_is_zero_whatever_memory_held(device: str, dtype: torch.dtype) -> None:
    table, timestep, modality = packed(600, 64, device, dtype)
    timestep.clamp_(max=1)
    modality.clamp_(max=1)
    cotangents = [normal((600, 64), device, dtype, seed) for seed in range(6)]
    for _ in range(5):
        # Memory of the size of the gradient, and of smaller ones, comes back full of NaNs.
        held = [torch.full((ROWS, 384), float("nan"), dtype=dtype, device=device) for _ in range(4)]
        del held
        (found,) = f.backward(cotangents, table, timestep, modality)
        unused = found.view(3, 3, 384)[:, 2].cpu(), found.view(3, 3, 384)[2].cpu()
        for rows in unused:
            assert same_bytes(rows, torch.zeros_like(rows))


def test_repeats_have_the_same_bytes(device: str) -> None:
    cotangents = normal((5000, 16), device, torch.bfloat16)
    first = row_gradient(cotangents, device)
    for _ in range(20):
        assert same_bytes(row_gradient(cotangents, device), first)


@pytest.mark.parametrize("positions", [255, 256, 257])
def test_a_sum_does_not_depend_on_how_many_positions_follow(device: str, positions: int) -> None:
    cotangents = normal((positions, 16), device, torch.bfloat16)
    expected = row_gradient(cotangents, device)
    table = torch.zeros(2, 16, dtype=torch.bfloat16, device=device, requires_grad=True)
    row = torch.cat([torch.zeros(positions), torch.ones(1000)]).long().to(device)
    others = torch.cat([cotangents, normal((1000, 16), device, torch.bfloat16, 3)])
    (found,) = torch.autograd.grad(rt.row_gather(table, row), table, others)
    assert same_bytes(found[:1], expected)


def test_inputs_are_never_written(device: str) -> None:
    table, timestep, modality = packed(600, 8, device)
    cotangents = [normal((600, 8), device, seed=seed) for seed in range(6)]
    before = [x.clone() for x in (table, timestep, modality, *cotangents)]
    versions = [x._version for x in (table, timestep, modality, *cotangents)]
    table.requires_grad_()
    torch.autograd.backward(f(table, timestep, modality), cotangents)
    after = [table.detach(), timestep, modality, *cotangents]
    assert all(map(torch.equal, after, before))
    assert [x._version for x in (table, timestep, modality, *cotangents)] == versions
