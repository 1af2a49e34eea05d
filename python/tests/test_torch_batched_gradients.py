"""Several gradients at once: `is_grads_batched` and `vectorize` of torch.autograd, and `torch.func.vmap` over it."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from rowloom import torch as rt
from rowloom.torch import private

ROW = torch.tensor([3, 0, 8, 3, 5])


def automatic(table: Tensor, row: Tensor, plan: rt.RowPlan) -> Any:
    return rt.row_gather(table, row)


def planned(table: Tensor, row: Tensor, plan: rt.RowPlan) -> Any:
    return rt.row_gather(table, row, plan=plan)


def deferred(table: Tensor, row: Tensor, plan: rt.RowPlan) -> Any:
    return rt.row_gather(table, row, check="deferred")


@pytest.mark.parametrize("gather", [automatic, planned, deferred])
def test_each_gradient_has_the_bytes_of_one_alone(gather: Callable[..., Any], device: str) -> None:
    row = ROW.to(device)
    plan = rt.row_gather.plan(row, rows=9)
    table = torch.randn(9, 4, device=device, requires_grad=True)
    cotangents = torch.randn(3, 5, 4, device=device)
    # Twice: on a GPU the second call is like an earlier one.
    for _ in range(2):
        gathered = gather(table, row, plan)
        (found,) = torch.autograd.grad(gathered, table, cotangents, is_grads_batched=True, retain_graph=True)
        for one, cotangent in zip(found, cotangents, strict=True):
            assert torch.equal(one, torch.autograd.grad(gathered, table, cotangent, retain_graph=True)[0])


@pytest.mark.parametrize("gather", [automatic, planned, deferred])
def test_a_map_over_gradients(gather: Callable[..., Any], device: str) -> None:
    row = ROW.to(device)
    plan = rt.row_gather.plan(row, rows=9)
    table = torch.randn(9, 4, device=device, requires_grad=True)
    cotangents = torch.randn(2, 3, 5, 4, device=device)
    for _ in range(2):
        gathered = gather(table, row, plan)

        def gradient(cotangent: Tensor) -> Tensor:
            return torch.autograd.grad(gathered, table, cotangent, retain_graph=True)[0]

        expected = torch.stack([torch.stack([gradient(x) for x in some]) for some in cotangents])
        assert torch.equal(torch.func.vmap(gradient)(cotangents[0]), expected[0])
        assert torch.equal(torch.func.vmap(gradient, in_dims=1)(cotangents[0].transpose(0, 1)), expected[0])
        assert torch.equal(torch.func.vmap(torch.func.vmap(gradient))(cotangents), expected)


def test_a_map_over_the_gradients_of_some_results(device: str) -> None:
    table = torch.randn(9, 24, device=device, requires_grad=True)
    timestep, modality = torch.tensor([0, 2, 1], device=device), torch.tensor([1, 1, 0], device=device)
    one, many = torch.randn(3, 4, device=device), torch.randn(5, 3, 4, device=device)
    for _ in range(2):
        outputs = rt.adaln_row_gather(table, timestep, modality)

        def gradient(cotangent: Tensor) -> Tensor:
            return torch.autograd.grad(outputs[2:4], table, [one, cotangent], retain_graph=True)[0]

        assert torch.equal(torch.func.vmap(gradient)(many), torch.stack([gradient(x) for x in many]))


@pytest.mark.parametrize("vectorize", [False, True])
def test_jacobians(vectorize: bool, device: str) -> None:
    table, row = torch.randn(9, 12, device=device), ROW.to(device)
    timestep, modality = torch.tensor([0, 2], device=device), torch.tensor([1, 1], device=device)

    def select(table: Tensor) -> Tensor:
        return table.index_select(0, row)

    def gather(table: Tensor) -> Any:
        return rt.row_gather(table, row)

    def modulate(table: Tensor) -> Any:
        return rt.adaln_row_gather(table, timestep, modality)

    def chunks(table: Tensor) -> Any:
        return tuple(chunk.index_select(0, timestep * 3 + modality) for chunk in table.chunk(6, dim=1))

    for ours, theirs in ((gather, select), (modulate, chunks)):
        found = torch.autograd.functional.jacobian(ours, table, vectorize=vectorize)  # type: ignore[no-untyped-call]
        expected = torch.autograd.functional.jacobian(theirs, table)  # type: ignore[no-untyped-call]
        if isinstance(expected, Tensor):
            found, expected = (found,), (expected,)
        assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


def test_a_batch_is_known_on_whichever_thread_a_backward_runs() -> None:
    """That of a GPU runs on one of autograd's own, which has counted no batches."""
    inner, outer = torch.arange(6.0).view(3, 2), torch.arange(24.0).view(4, 3, 2)
    found: list[Any] = []

    def doubled(one: Tensor, other: Tensor) -> Tensor:
        tensors = [one, None, other]

        def each() -> None:
            standing, gradients = private.unbatched(tensors)
            found.append(len(gradients))
            (again,) = private.batched_again(standing, [[2 * x] for _, _, x in gradients])
            found.append(again)

        thread = threading.Thread(target=each)
        thread.start()
        thread.join()
        return found.pop()  # type: ignore[no-any-return]

    vmap: Any = torch._vmap_internals._vmap
    assert torch.equal(vmap(doubled)(inner, inner), 2 * inner)
    assert found == [3]
    assert torch.equal(vmap(lambda x: vmap(doubled)(inner, x))(outer), 2 * outer)
    assert found == [3, 3]
