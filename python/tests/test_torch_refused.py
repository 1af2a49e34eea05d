"""Tensors that are no rows of numbers in memory, and plans where a tracer would not see them being filled."""

import copy
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from rowloom import torch as rt
from rowloom.torch.declared import fixed_dtype

TABLE, ROW = torch.randn(9, 4), torch.tensor([3, 0, 8, 3, 5])


def sparse(x: Tensor) -> Tensor:
    return x.to_sparse()


def nested(x: Tensor) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.nested.nested_tensor([x, x])


@pytest.mark.parametrize(("make", "what"), [(sparse, "of layout torch.sparse_coo"), (nested, "nested")])
def test_sparse_and_nested_tensors(make: Any, what: str) -> None:
    sentence = f"{what}; it must be a dense tensor with memory of its own"
    table, row = make(TABLE), make(ROW)
    for call in (
        lambda: rt.row_gather(table, ROW),
        lambda: rt.row_gather(TABLE, row),
        lambda: rt.row_gather.plan(row, rows=9),
        lambda: rt.row_gather.backward(TABLE[:5], table, ROW),
        lambda: rt.gather_chunks([table] * 6, ROW, ROW),
        lambda: rt.gather_chunks([TABLE] * 6, row, ROW),
        lambda: rt.gather_chunks([TABLE] * 6, ROW, row),
    ):
        with pytest.raises(ValueError, match=sentence):
            call()


def test_a_table_of_no_axes() -> None:
    with pytest.raises(ValueError, match=r"table has 0 axes, but must have 2: a table is \(rows, columns\), and has no batch"):
        rt.row_gather(torch.tensor(1.0), ROW)


def test_tensors_of_two_devices_have_no_shapes() -> None:
    for table, row in ((TABLE.to("meta"), ROW), (TABLE, ROW.to("meta"))):
        with pytest.raises(ValueError, match=r"row is on (cpu|meta), but the call runs on (cpu|meta): table is there|row is on meta"):
            rt.row_gather(table, row)
    assert rt.row_gather(TABLE.to("meta"), ROW.to("meta")).shape == (5, 4)


def test_indices_of_a_plan_have_one_shape() -> None:
    two, six = torch.zeros(2, 3, dtype=torch.int64), torch.zeros(6, dtype=torch.int64)
    for timestep, modality in ((two, six), (six, two), (two, two.T)):
        with pytest.raises(ValueError, match=r"modality has shape .*, but timestep has .*; the indices of a plan have one shape"):
            rt.adaln_row_gather.plan(timestep, modality, rows=9)
    assert rt.adaln_row_gather.plan(two, two, rows=9).positions == 6


def test_an_index_whose_storage_went_is_refused_again() -> None:
    row = ROW.clone()
    rt.row_gather(TABLE, row)
    row.untyped_storage().resize_(0)
    for _ in range(3):
        with pytest.raises(ValueError, match="row is a Tensor without memory"):
            rt.row_gather(TABLE, row)


def test_chunks_of_the_other_sign() -> None:
    """Parts of complex numbers that lie side by side, of which one stands in memory with the other sign."""
    z = torch.randn(9, 3, dtype=torch.complex64)
    chunks = [part for at in range(3) for part in (z.real[:, at : at + 1], z.conj().imag[:, at : at + 1])]
    assert [x.is_neg() for x in chunks] == [False, True] * 3
    row = ROW // 3
    gathered = rt.gather_chunks(chunks, row, row)
    for found, chunk in zip(gathered, chunks, strict=True):
        assert torch.equal(found, chunk.index_select(0, row * 3 + row))


def test_no_tracer_records_a_plan_being_made() -> None:
    made = rt.row_gather.plan(ROW, rows=9)
    makes = [
        lambda row: rt.row_gather(TABLE, row, plan=rt.row_gather.plan(row, rows=9)),
        lambda row: rt.row_gather(TABLE, torch.cat([row, row]), plan=made.repeat(2)),
        lambda row: rt.row_gather(TABLE, row, plan=copy.deepcopy(made)),
    ]
    for make in makes:
        with pytest.raises(RuntimeError, match="a plan is made while a tracer records"):
            make_fx(make)(ROW)
        with pytest.raises(RuntimeError, match="a plan is made while a tracer records"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.jit.trace(make, (ROW,), check_trace=False)  # type: ignore[no-untyped-call]

    def given(table: Tensor, row: Tensor) -> Any:
        return rt.row_gather(table, row, plan=made)

    assert torch.equal(make_fx(given)(TABLE, ROW)(TABLE, ROW), TABLE[ROW])


def test_derivatives_of_torch_func_are_refused() -> None:
    def summed(table: Tensor) -> Any:
        return rt.row_gather(table, ROW).sum()

    for derive in (torch.func.grad(summed), torch.func.jacrev(summed), lambda table: torch.func.vjp(summed, table)):
        with pytest.raises(NotImplementedError, match=r"row_gather has no derivative of torch\.func \(grad, vjp, jacrev\)"):
            derive(TABLE)


def test_derivatives_of_a_gradient_by_torch_func_are_refused() -> None:
    def summed(cotangent: Tensor) -> Any:
        return rt.row_gather.backward(cotangent, TABLE, ROW)[0].sum()

    with pytest.raises(RuntimeError, match="row_gather has a first derivative only"):
        torch.func.grad(summed)(torch.ones(5, 4))


def test_a_map_over_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"row_gather: torch\.func\.vmap is over a batch of none"):
        torch.func.vmap(lambda table: rt.row_gather(table, ROW))(torch.ones(0, 9, 4))


def test_a_type_parameter_may_be_called_as_anything_in_torch() -> None:
    assert fixed_dtype("int32") is torch.int32
    assert [fixed_dtype(name) for name in ("T", "Size", "e")] == [None] * 3


def test_a_shallow_copy_of_a_plan_is_the_plan() -> None:
    plan = rt.row_gather.plan(ROW, rows=9)
    assert copy.copy(plan) is plan


def test_counts_of_another_kernel_are_refused_by_ops() -> None:
    with pytest.raises(ValueError, match="rowloom::row_gather takes no counts, not 1"):
        torch.ops.rowloom.row_gather(TABLE, ROW, counts=[3])
    with pytest.raises(ValueError, match=r"rowloom::row_scatter_sum takes 1 counts \(R\), not 0"):
        torch.ops.rowloom.row_scatter_sum(TABLE[:5], ROW)


def test_sizes_of_no_plan_are_refused_by_ops() -> None:
    state = rt.row_gather.plan(ROW, rows=9).state
    with pytest.raises(ValueError, match="the sizes of a plan are .*; none is negative"):
        torch.ops.rowloom.row_gather.planned(TABLE, ROW, [state], [-1] * 6)
