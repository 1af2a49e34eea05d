"""Batches, strides, views and chunks: what is read in place, and what comes out."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor
from torch_cases import ROWS, all_same_bytes, gathered, normal, packed, same_bytes, summed

import rowloom.torch as rt
from rowloom.torch import declared

f = rt.adaln_row_gather


def batched_gradient(row: Tensor, cotangents: Sequence[Tensor]) -> Tensor:
    return torch.cat([summed(x.cpu().reshape(-1, x.shape[-1]), row.cpu().flatten(), ROWS) for x in cotangents], dim=1)


@pytest.mark.parametrize("planned", [False, True])
@pytest.mark.parametrize("leading", [(2, 150), (1, 300), (300, 1), (2, 3, 50)])
def test_leading_dimensions_are_a_batch(device: str, leading: tuple[int, ...], planned: bool) -> None:
    table, timestep, modality = packed(300, 8, device)
    expected = [x.reshape(*leading, 8) for x in gathered(table, timestep, modality)]
    table.requires_grad_()
    timestep, modality = timestep.view(leading), modality.view(leading)
    plan = f.plan(timestep, modality, rows=ROWS) if planned else None
    outputs = f(table, timestep, modality, plan=plan)
    assert all_same_bytes(outputs, expected)
    assert not any(output._is_view() for output in outputs)
    cotangents = [normal((*leading, 8), device, seed=seed) for seed in range(6)]
    torch.autograd.backward(outputs, cotangents)
    assert table.grad is not None
    expected_gradient = batched_gradient(timestep * 3 + modality, cotangents)
    assert same_bytes(table.grad, expected_gradient)
    (direct,) = f.backward(cotangents, table, timestep, modality, plan=plan)
    assert same_bytes(direct, expected_gradient)


@pytest.mark.parametrize("how", ["automatic", "of one sequence", "repeated", "off"])
def test_a_batch_may_share_an_index(device: str, how: str) -> None:
    rows = normal((3, 40, 8), device).requires_grad_()
    row = torch.randint(0, 5, (40,), generator=torch.Generator().manual_seed(4)).to(device)
    flat = row.repeat(3)
    plan = None
    if how in ("of one sequence", "repeated"):
        plan = rt.row_scatter_sum.plan(row, rows=5)
        if how == "repeated":
            plan = plan.repeat(3)
            assert plan.positions == 120
    with rt.auto_plans(how != "off"):
        for _ in range(2):
            result = rt.row_scatter_sum(rows, row, R=5, plan=plan)
            assert same_bytes(result, summed(rows.detach().cpu().view(-1, 8), flat.cpu(), 5))
    cotangent = normal((5, 8), device)
    result.backward(cotangent)
    assert rows.grad is not None
    assert same_bytes(rows.grad, cotangent[flat].view(3, 40, 8))
    if how == "automatic":
        assert rt.plan_stats().entries == 1


def test_one_of_two_indices_may_be_shared(device: str) -> None:
    table, timestep, modality = packed(120, 8, device)
    timestep, shared = timestep.view(3, 40), modality[:40]
    for run in range(2):
        outputs = f(table, timestep, shared)
        expected = gathered(table, timestep.flatten(), shared.repeat(3))
        assert all_same_bytes(outputs, [x.view(3, 40, 8) for x in expected]), run
    shared.fill_(1)
    expected = gathered(table, timestep.flatten(), shared.repeat(3))
    assert all_same_bytes(f(table, timestep, shared), [x.view(3, 40, 8) for x in expected])


def strided(x: Tensor, how: str) -> Tensor:
    """The same values, lying otherwise."""
    rows, columns = x.shape
    match how:
        case "odd row stride":
            return torch.cat([x, x.new_full((rows, 1), float("nan"))], dim=1)[:, :columns]
        case "offset by one element":
            return torch.cat([x.new_full((1,), float("nan")), x.flatten()])[1:].view(rows, columns)
        case "every other row":
            return torch.stack([x, torch.full_like(x, float("nan"))], dim=1).view(2 * rows, columns)[::2]
        case "columns of a wider buffer":
            return torch.cat([torch.full_like(x, float("nan")), x, x], dim=1)[:, columns : 2 * columns]
    raise AssertionError(how)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("how", ["odd row stride", "offset by one element", "every other row", "columns of a wider buffer"])
def test_strided_tables_and_rows_are_read_in_place(device: str, how: str, dtype: torch.dtype) -> None:
    table, timestep, modality = packed(200, 5, device, dtype)
    assert all_same_bytes(f(strided(table, how), timestep, modality), gathered(table, timestep, modality))
    rows = normal((200, 5), device, dtype)
    expected = summed(rows.cpu(), timestep.cpu(), 3)
    assert same_bytes(rt.row_scatter_sum(strided(rows, how), timestep, R=3), expected)


def test_expanded_rows_and_strided_indices(device: str) -> None:
    one = normal((1, 8), device)
    row = torch.tensor([0, 1, 1], device=device)
    assert same_bytes(rt.row_scatter_sum(one.expand(3, 8), row, R=2), torch.cat([one, one + one]))
    table, timestep, modality = packed(200, 8, device)
    assert all_same_bytes(f(one.repeat(1, 6).expand(9, 48), timestep, modality), [one.expand(200, 8)] * 6)
    both = torch.stack([timestep, modality], dim=1)
    assert all_same_bytes(f(table, both[:, 0], both[:, 1]), gathered(table, timestep, modality))
    expanded = torch.full((1,), 2, device=device).expand(200)
    assert all_same_bytes(f(table, expanded, modality), gathered(table, expanded, modality))


def test_the_stride_of_one_row_is_ignored(device: str) -> None:
    table = normal((1, 8), device).as_strided((1, 8), (3, 1))
    row = torch.zeros(4, dtype=torch.int64, device=device)
    assert same_bytes(rt.row_gather(table, row), table[row])


def test_large_results_have_memory_of_their_own(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table, timestep, modality = packed(200, 8, device)
    together = f(table, timestep, modality)
    assert len({x.untyped_storage().data_ptr() for x in together}) == 1
    monkeypatch.setattr(declared, "ONE_BUFFER_BYTES", 6 * 200 * 8 * 4 - 1)
    apart = f.with_order(block=128)
    table.requires_grad_()
    outputs = apart(table, timestep, modality)
    assert len({x.untyped_storage().data_ptr() for x in outputs}) == 6
    assert all_same_bytes(outputs, together)
    assert not any(output._is_view() for output in outputs)
    cotangents = [normal((200, 8), device, seed=seed) for seed in range(6)]
    torch.autograd.backward(outputs, cotangents)
    batched = apart(table, timestep.view(2, 100), modality.view(2, 100))
    assert all_same_bytes(batched, [x.view(2, 100, 8) for x in together])


CHUNKS = {
    "of one buffer": lambda table: table.chunk(6, dim=1),
    "of a strided buffer": lambda table: torch.cat([table, table], dim=1)[:, : table.shape[1]].chunk(6, dim=1),
    "apart": lambda table: [chunk.clone() for chunk in table.chunk(6, dim=1)],
    "in another order": lambda table: table.flip(1).chunk(6, dim=1)[::-1],
}


@pytest.mark.parametrize("how", CHUNKS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_chunks_are_a_drop_in_for_six_gathers(device: str, how: str, dtype: torch.dtype) -> None:
    table, timestep, modality = packed(300, 8, device, dtype)
    chunks = [chunk.detach().requires_grad_() for chunk in CHUNKS[how](table)]
    row = timestep * 3 + modality
    expected = tuple(chunk.index_select(0, row) for chunk in chunks)
    outputs = rt.gather_chunks(chunks, timestep, modality)
    assert all_same_bytes(outputs, expected)
    assert all_same_bytes(rt.gather_chunks(chunks, timestep, modality, plan=f.plan(timestep, modality, rows=ROWS)), expected)
    cotangents = [normal((300, 8), device, dtype, seed) for seed in range(6)]
    torch.autograd.backward(outputs, cotangents)
    for chunk, cotangent in zip(chunks, cotangents, strict=True):
        assert chunk.grad is not None
        assert same_bytes(chunk.grad, summed(cotangent.cpu(), row.cpu(), ROWS))


def test_chunks_of_one_buffer_are_not_copied(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table, timestep, modality = packed(300, 8, device)
    apart = [chunk.clone() for chunk in table.chunk(6, dim=1)]

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("copied")

    monkeypatch.setattr(torch, "cat", refuse)
    expected = gathered(table, timestep, modality)
    assert all_same_bytes(rt.gather_chunks(table.chunk(6, dim=1), timestep, modality), expected)
    with pytest.raises(AssertionError, match="copied"):
        rt.gather_chunks(apart, timestep, modality)


def test_gradients_reach_the_table_behind_its_chunks(device: str) -> None:
    table, timestep, modality = packed(300, 8, device)
    table.requires_grad_()
    cotangents = [normal((300, 8), device, seed=seed) for seed in range(6)]
    torch.autograd.backward(rt.gather_chunks(table.chunk(6, dim=1), timestep, modality), cotangents)
    (expected,) = f.backward(cotangents, table, timestep, modality)
    assert table.grad is not None
    assert same_bytes(table.grad, expected)


def test_frozen_chunks_get_no_gradient(device: str) -> None:
    table, timestep, modality = packed(300, 8, device)
    chunks = [chunk.clone() for chunk in table.chunk(6, dim=1)]
    chunks[2].requires_grad_()
    outputs = rt.gather_chunks(chunks, timestep, modality)
    cotangent = normal((300, 8), device)
    outputs[2].backward(cotangent)
    assert [chunk.grad is None for chunk in chunks] == [True, True, False, True, True, True]
    assert chunks[2].grad is not None
    assert same_bytes(chunks[2].grad, summed(cotangent.cpu(), (timestep * 3 + modality).cpu(), ROWS))


def test_chunks_that_do_not_fit_together_are_refused(device: str) -> None:
    table, timestep, modality = packed(30, 8, device)
    chunks = list(table.chunk(6, dim=1))
    with pytest.raises(ValueError, match="takes 6 chunks, not 5"):
        rt.gather_chunks(chunks[:5], timestep, modality)
    with pytest.raises(ValueError, match="chunk 3 has type torch.float16"):
        rt.gather_chunks([*chunks[:3], chunks[3].half(), *chunks[4:]], timestep, modality)
    with pytest.raises(ValueError, match=r"chunk 5 has shape \(9, 7\), chunk 0 has \(9, 8\)"):
        rt.gather_chunks([*chunks[:5], chunks[5][:, :7]], timestep, modality)
    with pytest.raises(TypeError, match="chunk 1 is a list"):
        rt.gather_chunks([chunks[0], [1.0], *chunks[2:]], timestep, modality)  # type: ignore[list-item]
