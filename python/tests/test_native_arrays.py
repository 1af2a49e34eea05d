"""Where arrays of the native module may lie: views, strides, columns, subclasses, NumPy beside PyTorch."""

import numpy as np
import pytest
import torch
from native_cases import FLOATS, GATHER, INTS, assert_bits, indices, poisoned, random, tensor
from reference import ordered_sum
from torch import Tensor


def lay(values: Tensor, how: str) -> Tensor:
    """The same values somewhere else in memory."""
    rows, columns = values.shape
    match how:
        case "strided rows":
            whole = torch.full((rows, columns + 3), 77, dtype=values.dtype)
            view = whole[:, :columns]
        case "odd offset":
            whole = torch.full((rows * columns + 1,), 77, dtype=values.dtype)
            view = whole[1:].view(rows, columns)
        case "every other row":
            whole = torch.full((2 * rows, columns), 77, dtype=values.dtype)
            view = whole[::2]
        case _:
            raise AssertionError(how)
    view.copy_(values)
    return view


LAYS = ["strided rows", "odd offset", "every other row"]


@pytest.mark.parametrize("how", LAYS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_views_are_read_and_written_in_place(how: str, dtype: str) -> None:
    table = tensor(random(1, (6, 5), dtype), dtype)
    row = torch.from_numpy(indices(2, 40, 6))
    strided = torch.zeros(40, 3, dtype=torch.int64)[:, 1]
    strided.copy_(row)
    out = lay(torch.zeros(40, 5, dtype=table.dtype), how)
    GATHER.forward(0, [lay(table, how), strided], [out], None, "now", {})
    assert_bits(out, table[row])
    gradient = lay(torch.zeros(6, 5, dtype=table.dtype), how)
    GATHER.backward(0, [None, strided], [lay(table[row], how)], [gradient, None], None, None)
    expected = ordered_sum(table[row].float().numpy(), row.numpy(), 6, dtype, 256, "float32")
    assert_bits(gradient, tensor(expected, dtype))
    storage = out.as_strided((out.untyped_storage().nbytes() // out.element_size(),), (1,), 0)
    kept = (storage == 77).sum()
    assert kept == storage.numel() - out.numel(), "what lies between the rows is not touched"


def test_chunk_views_of_one_table() -> None:
    table = torch.arange(6 * 15, dtype=torch.float32).reshape(6, 15)
    row = torch.tensor([5, 0, 3], dtype=torch.int32)
    for chunk in range(3):
        view = table[:, 5 * chunk : 5 * chunk + 5]
        out = torch.empty(3, 5)
        GATHER.forward(0, [view, row], [out], None, "now", {})
        assert_bits(out, view[row.long()])


def test_one_dimensional_arrays_are_columns() -> None:
    table = torch.arange(8, dtype=torch.float32)[::2]
    row = torch.tensor([3, 1], dtype=torch.uint8)
    out = torch.empty(2)
    GATHER.forward(0, [table, row], [out], None, "now", {})
    assert out.tolist() == [6.0, 2.0]


def test_expanded_cotangent() -> None:
    row = torch.tensor([0, 1, 1, 1], dtype=torch.int64)
    gradient = torch.empty(2, 4)
    GATHER.backward(0, [None, row], [torch.ones(1, 4).expand(4, 4)], [gradient, None], None, None)
    assert gradient.tolist() == [[1.0] * 4, [3.0] * 4]


def test_one_row_ignores_its_stride() -> None:
    table = torch.arange(4, dtype=torch.float32).as_strided((1, 4), (3, 1))
    out = torch.empty(0, 0).new_empty(7).as_strided((1, 4), (2, 1))
    GATHER.forward(0, [table, torch.zeros(1, dtype=torch.uint8)], [out], None, "now", {})
    assert out.tolist() == [[0.0, 1.0, 2.0, 3.0]]


def test_parameters_and_numpy_arrays_mix() -> None:
    table = torch.nn.Parameter(torch.arange(6, dtype=torch.float32).reshape(3, 2))
    out = np.empty((2, 2), np.float32)
    GATHER.forward(0, [table, np.array([2, 0], np.int32)], [out], None, "now", {})
    assert out.tolist() == [[4.0, 5.0], [0.0, 1.0]]


class Subclass(torch.Tensor):
    """Which PyTorch's exchange function does not know, so that its attributes are read."""


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("index", INTS, ids=str)
def test_subclasses_are_read_by_their_attributes(dtype: str, index: torch.dtype) -> None:
    table = tensor(random(1, (9, 22), dtype), dtype)[:, 3:8]
    row = torch.from_numpy(indices(2, 50, 9)).to(index)
    out = poisoned(50, 5, dtype=dtype)
    GATHER.forward(0, [table.as_subclass(Subclass), row.as_subclass(Subclass)], [out.as_subclass(Subclass)], None, "now", {})
    assert_bits(out, table[row.long()])
