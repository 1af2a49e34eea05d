"""Results and gradients, to the byte."""

import pytest
import torch
from torch_cases import ROWS, all_same_bytes, gathered, normal, packed, same_bytes, summed

import rowloom.torch as rt

TYPES = [torch.float32, torch.float16, torch.bfloat16]
INDICES = [torch.int64, torch.int32, torch.uint8]
SIZES = [(1, 8), (2, 1), (3, 5), (257, 64), (832, 33)]


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("positions", "columns"), SIZES)
def test_a_gather_moves_bytes(device: str, dtype: torch.dtype, index: torch.dtype, positions: int, columns: int) -> None:
    table, timestep, modality = packed(positions, columns, device, dtype, index)
    table[0, 0] = float("nan")
    table[-1, -1] = -0.0
    expected = gathered(table, timestep, modality)
    plan = rt.adaln_row_gather.plan(timestep, modality, rows=ROWS)
    assert all_same_bytes(rt.adaln_row_gather(table, timestep, modality), expected)
    assert all_same_bytes(rt.adaln_row_gather(table, timestep, modality, plan=plan), expected)
    assert all_same_bytes(rt.adaln_row_gather(table, timestep, modality, check="deferred"), expected)
    with rt.auto_plans(False):
        assert all_same_bytes(rt.adaln_row_gather(table, timestep, modality), expected)
    rt.synchronize()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("positions", "columns"), SIZES)
def test_a_table_gradient_is_the_published_sum(device: str, dtype: torch.dtype, positions: int, columns: int) -> None:
    table, timestep, modality = packed(positions, columns, device, dtype)
    table.requires_grad_()
    cotangents = [normal((positions, columns), device, dtype, seed) for seed in range(6)]
    torch.autograd.backward(rt.adaln_row_gather(table, timestep, modality), cotangents)
    row = (timestep * 3 + modality).cpu()
    expected = torch.cat([summed(cotangent.cpu(), row, ROWS) for cotangent in cotangents], dim=1)
    assert table.grad is not None
    assert same_bytes(table.grad, expected)


@pytest.mark.parametrize("dtype", TYPES)
def test_a_sum_and_its_gradient(device: str, dtype: torch.dtype) -> None:
    rows = normal((700, 20), device, dtype).requires_grad_()
    row = torch.randint(0, 5, (700,), generator=torch.Generator().manual_seed(2)).to(device)
    result = rt.row_scatter_sum(rows, row, R=6)
    assert same_bytes(result, summed(rows.detach().cpu(), row.cpu(), 6))
    cotangent = normal((6, 20), device, dtype, 3)
    result.backward(cotangent)
    assert rows.grad is not None
    assert same_bytes(rows.grad, cotangent[row])


def test_a_plain_gather_and_its_gradient(device: str) -> None:
    table = normal((7, 20), device).requires_grad_()
    row = torch.randint(0, 7, (700,), generator=torch.Generator().manual_seed(2)).to(device)
    result = rt.row_gather(table, row)
    assert same_bytes(result, table[row])
    cotangent = normal((700, 20), device, seed=3)
    result.backward(cotangent)
    assert table.grad is not None
    assert same_bytes(table.grad, summed(cotangent.cpu(), row.cpu(), 7))


def test_check_vectors_of_the_order(device: str) -> None:
    ones = torch.ones(512, 1)
    ones[0] = 2.0**24
    row = torch.zeros(512, dtype=torch.int64, device=device)
    assert rt.row_scatter_sum(ones.to(device), row, R=1).item() == 16777472.0
    exact = rt.row_scatter_sum.with_order(accumulate="float64")
    assert exact(ones.to(device), row, R=1).item() == 16777728.0
    cancel = torch.ones(512, 1, dtype=torch.bfloat16)
    cancel[0], cancel[-1] = 2.0**24, -(2.0**24)
    assert rt.row_scatter_sum(cancel.to(device), row, R=1).item() == 255.0


@pytest.mark.parametrize("dtype", TYPES)
def test_gradients_against_f64(device: str, dtype: torch.dtype) -> None:
    table, timestep, modality = packed(5000, 40, device, dtype)
    table.requires_grad_()
    cotangents = [normal((5000, 40), device, dtype, seed) for seed in range(6)]
    exact = torch.zeros(ROWS, 240, dtype=torch.float64)
    row = (timestep * 3 + modality).cpu()
    exact.index_add_(0, row, torch.cat([cotangent.cpu().double() for cotangent in cotangents], dim=1))
    for function, limit in ((rt.adaln_row_gather, 2.0**-8), (rt.adaln_row_gather.with_order(accumulate="float64"), None)):
        (gradient,) = torch.autograd.grad(function(table, timestep, modality), table, cotangents)
        if limit is None:
            # Sums in f64 of values that f64 adds exactly to far below half a unit of the stored type.
            assert same_bytes(gradient, exact.to(dtype))
        else:
            assert (gradient.cpu().double() - exact).abs().max() <= limit * exact.abs().max()


def test_gradients_in_float32(device: str) -> None:
    table, timestep, modality = packed(900, 16, device, torch.bfloat16)
    cotangents = [normal((900, 16), device, torch.bfloat16, seed) for seed in range(6)]
    (gradient,) = rt.adaln_row_gather.backward(cotangents, table, timestep, modality, gradient_dtype=torch.float32)
    row = (timestep * 3 + modality).cpu()
    expected = torch.cat([summed(cotangent.cpu().float(), row, ROWS) for cotangent in cotangents], dim=1)
    assert same_bytes(gradient, expected)


def test_a_gpu_gives_the_bytes_of_the_cpu(cuda: str) -> None:
    for dtype in TYPES:
        table, timestep, modality = packed(4097, 136, "cpu", dtype)
        cotangents = [normal((4097, 136), "cpu", dtype, seed) for seed in range(6)]
        results = []
        for place in ("cpu", cuda):
            mine = table.to(place).requires_grad_()
            outputs = rt.adaln_row_gather(mine, timestep.to(place), modality.to(place))
            (gradient,) = torch.autograd.grad(outputs, mine, [cotangent.to(place) for cotangent in cotangents])
            results.append([*outputs, gradient])
        assert all_same_bytes(results[1], results[0])
