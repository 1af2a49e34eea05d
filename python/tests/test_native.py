"""The native module over CPU tensors of PyTorch: bytes, views, plans, absent arguments, orders."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from reference import adaln_rows, chunks, ordered_sum, rounded
from torch import Tensor

from rowloom import _native

KERNELS = {kernel.name: kernel for kernel in _native.kernels()}
ADALN, GATHER, SCATTER = KERNELS["adaln_row_gather"], KERNELS["row_gather"], KERNELS["row_scatter_sum"]

FLOATS = ["float32", "float16", "bfloat16"]
INTS = [torch.uint8, torch.int32, torch.int64]

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32}


def bits(tensor: Tensor) -> Tensor:
    return tensor.contiguous().view(_BITS[tensor.element_size()])


def assert_bits(found: Tensor, expected: Tensor) -> None:
    assert found.dtype == expected.dtype
    assert torch.equal(bits(found), bits(expected))


def tensor(values: NDArray[np.float32], dtype: str) -> Tensor:
    """Values that the type holds exactly."""
    result = torch.from_numpy(values).to(getattr(torch, dtype))
    assert torch.equal(result.float(), torch.from_numpy(values))
    return result


def random(seed: int, shape: tuple[int, ...], dtype: str) -> NDArray[np.float32]:
    return rounded(np.random.default_rng(seed).standard_normal(shape), dtype)


def indices(seed: int, positions: int, bound: int) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, bound, positions)


def plan_of(kernel: Any, expression: int, given: list[Tensor], rows: int) -> tuple[Tensor, Any]:
    positions = given[0].shape[0]
    state = torch.full((_native.plan_elements(positions, rows, kernel.block),), -1, dtype=torch.int32)
    return state, kernel.plan(0, expression, given, {"R": rows}, state)


def poisoned(*shape: int, dtype: str) -> Tensor:
    """What must be overwritten: every bit set."""
    element = getattr(torch, dtype)
    return torch.full(shape, -1, dtype=_BITS[element.itemsize]).view(element)


def extent(rows: _native.Extent | None) -> tuple[str | None, int, int]:
    assert rows is not None
    return rows.count, rows.numerator, rows.denominator


def test_metadata() -> None:
    assert [kernel.name for kernel in _native.kernels()] == sorted(KERNELS)
    assert _native.kernels()[0] is _native.kernels()[0]
    assert ADALN.signature.startswith("adaln_row_gather<T: Float, I: Int, const R: usize>(table: Table<T, R, 6>")
    assert ADALN.docs.startswith("Six modulation vectors")
    table, timestep, modality = ADALN.inputs
    assert (table.name, table.kind, table.dtype, table.chunks, table.differentiable) == ("table", "table", "T", 6, True)
    assert extent(table.rows) == ("R", 1, 1)
    assert (timestep.kind, timestep.dtype, timestep.pad, timestep.differentiable) == ("index", "I", None, False)
    assert extent(timestep.rows) == ("R", 1, 3)
    assert extent(modality.rows) == (None, 3, 1)
    (out,) = ADALN.outputs
    assert (out.name, out.kind, out.dtype, out.tensors, out.chunks, out.rows) == ("out", "rows", "T", 6, 1, None)
    ((text, terms, rows),) = ADALN.row_expressions
    assert (text, terms, extent(rows)) == ("timestep * 3 + modality", (1, 2), ("R", 1, 1))
    assert (ADALN.counts, ADALN.open_counts, ADALN.sums) == (("R",), (), False)
    assert (SCATTER.counts, SCATTER.open_counts, SCATTER.sums) == (("R",), ("R",), True)
    assert (SCATTER.outputs[0].kind, extent(SCATTER.outputs[0].rows)) == ("table", ("R", 1, 1))
    assert (ADALN.block, ADALN.accumulate) == (256, "float32")


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("index", INTS, ids=str)
@pytest.mark.parametrize(("positions", "columns"), [(1, 1), (3, 5), (257, 8), (832, 24)])
def test_gather_copies_rows(dtype: str, index: torch.dtype, positions: int, columns: int) -> None:
    table = tensor(random(1, (9, 6 * columns), dtype), dtype)
    timestep, modality = indices(2, positions, 3), indices(3, positions, 3)
    rows = torch.from_numpy(adaln_rows(timestep, modality))
    expected = table[rows].reshape(positions, 6, columns).transpose(0, 1)
    given = [torch.from_numpy(timestep).to(index), torch.from_numpy(modality).to(index)]
    plan = plan_of(ADALN, 0, given, 9)
    for plans in (None, [plan]):
        out = poisoned(6, positions, columns, dtype=dtype)
        ADALN.forward(0, [table, *given], [out], plans, "now", {})
        assert_bits(out, expected)
        # One array for each tensor.
        six = [poisoned(positions, columns, dtype=dtype) for _ in range(6)]
        ADALN.forward(0, (table, *given), six, plans, "deferred", {"R": 9})
        assert_bits(torch.stack(six), expected)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("accumulate", ["float32", "float64"])
@pytest.mark.parametrize("block", [256, 3])
@pytest.mark.parametrize("positions", [1, 257, 1100])
def test_backward_is_the_ordered_sum(dtype: str, accumulate: str, block: int, positions: int) -> None:
    kernel = ADALN.with_order(block=block, accumulate=accumulate)
    # Row 8 stays empty, and most positions are of one row.
    timestep = np.minimum(indices(2, positions, 12), 2) % 3
    modality = np.where(timestep == 2, indices(3, positions, 2), indices(4, positions, 3))
    rows = adaln_rows(timestep, modality)
    cotangents = random(5, (6, positions, 5), dtype)
    given = [torch.from_numpy(timestep), torch.from_numpy(modality)]
    plan = plan_of(kernel, 0, given, 9)
    for stored in (dtype, "float32"):
        expected = np.concatenate([ordered_sum(one, rows, 9, stored, block, accumulate) for one in cotangents], 1)
        for plans in (None, [plan]):
            gradient = poisoned(9, 30, dtype=stored)
            kernel.backward(0, (None, *given), list(tensor(cotangents, dtype)), (gradient, None, None), plans, None)
            assert_bits(gradient, tensor(expected, stored))
        assert not bits(gradient[8]).any()


def test_scatter_forward_and_backward() -> None:
    rows, row = random(1, (700, 7), "bfloat16"), indices(2, 700, 4)
    index = torch.from_numpy(row).to(torch.int32)
    plan = plan_of(SCATTER, 0, [index], 5)
    expected = ordered_sum(rows, row, 5, "bfloat16", 256, "float32")
    for plans in (None, [plan]):
        out = poisoned(5, 7, dtype="bfloat16")
        SCATTER.forward(0, [tensor(rows, "bfloat16"), index], [out], plans, "now", {"R": 5})
        assert_bits(out, tensor(expected, "bfloat16"))
        gradient = poisoned(700, 7, dtype="bfloat16")
        # Its backward is a gather, which reads the index alone.
        assert SCATTER.reads((True, False)) == (False, True)
        SCATTER.backward(0, [None, index], [out], [gradient, None], plans, None)
        assert_bits(gradient, out[index.long()])


def one_row_sum(values: list[float], dtype: str, accumulate: str) -> float:
    summands = torch.tensor(values, dtype=getattr(torch, dtype)).reshape(-1, 1)
    out = torch.empty(1, 1, dtype=summands.dtype)
    row = torch.zeros(len(values), dtype=torch.uint8)
    SCATTER.with_order(accumulate=accumulate).forward(0, [summands, row], [out], None, "now", {})
    return float(out)


def test_check_vectors() -> None:
    assert one_row_sum([2.0**24] + [1.0] * 511, "float32", "float32") == 16777472
    assert one_row_sum([2.0**24] + [1.0] * 511, "float32", "float64") == 16777728
    assert one_row_sum([2.0**24] + [1.0] * 510 + [-(2.0**24)], "bfloat16", "float32") == 255
    assert one_row_sum([65504.0, 65504.0, -65504.0], "float16", "float32") == 65504
    assert one_row_sum([1.0] * 1000, "bfloat16", "float32") == 1000


def test_moves_keep_every_encoding() -> None:
    encodings = torch.tensor([0x7F81, 0xFFC1, 0x8000, 0x0001, 0x7F80, 0x7FC0], dtype=torch.int32).to(torch.int16)
    table = encodings.view(torch.bfloat16).reshape(2, 3)
    row = torch.tensor([1, 0, 0], dtype=torch.int64)
    out = poisoned(3, 3, dtype="bfloat16")
    GATHER.forward(0, [table, row], [out], None, "now", {})
    assert torch.equal(bits(out), encodings.reshape(2, 3)[row])


def test_sums_of_special_values() -> None:
    def total(values: list[int]) -> int:
        summands = torch.tensor(values, dtype=torch.int32).to(torch.int16).view(torch.bfloat16).reshape(-1, 1)
        out = poisoned(2, 1, dtype="bfloat16")
        SCATTER.forward(0, [summands, torch.zeros(len(values), dtype=torch.uint8)], [out], None, "now", {})
        assert int(bits(out)[1]) == 0, "the row without positions"
        return int(bits(out)[0]) & 0xFFFF

    assert total([0x0001, 0x0001]) == 0x0002, "subnormals are kept"
    assert total([0x8000, 0x8000]) == 0x0000, "a segment of -0.0"
    assert total([0x7F80, 0xFF80]) == 0x7FC0, "infinities of both signs"
    assert total([0x7F81, 0x3F80]) == 0x7FC0, "a NaN that arithmetic gave"


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


def test_plans_do_not_follow_edits() -> None:
    timestep, modality = torch.tensor([0, 2, 1]), torch.tensor([2, 0, 1])
    plan = plan_of(ADALN, 0, [timestep, modality], 9)
    assert plan[1] == (3, 9, 256, 9, 0, 0)
    rows = timestep * 3 + modality
    timestep.fill_(100)
    table = torch.arange(9 * 12, dtype=torch.float32).reshape(9, 12)
    out = torch.empty(6, 3, 2)
    ADALN.forward(0, [table, timestep, modality], [out], [plan], "now", {})
    assert_bits(out, torch.from_numpy(np.ascontiguousarray(chunks(table.numpy(), rows.numpy(), 6))))


def test_repeated_plan() -> None:
    row = torch.from_numpy(indices(1, 300, 3)).to(torch.uint8)
    once = plan_of(GATHER, 0, [row], 4)
    state = torch.empty(_native.plan_elements(900, 4, 256), dtype=torch.int32)
    sizes = _native.repeat_plan(0, once, 3, state)
    again = plan_of(GATHER, 0, [row.repeat(3)], 4)
    assert sizes == again[1]
    cotangent = tensor(random(2, (900, 3), "float32"), "float32")
    gradients = []
    for plan in ((state, sizes), again):
        gradient = torch.empty(4, 3)
        GATHER.backward(0, [None, row.repeat(3)], [cotangent], [gradient, None], [plan], None)
        gradients.append(gradient)
    assert_bits(*gradients)


def test_scratch_is_asked_for_where_some_is_needed() -> None:
    def allocate(count: int) -> torch.Tensor:
        raise AssertionError(f"the CPU needs none, but {count} bytes were asked for")

    row = torch.tensor([1, 0], dtype=torch.uint8)
    plan = plan_of(GATHER, 0, [row], 2)
    gradient, cotangent = torch.empty(2, 3), torch.ones(2, 3)
    GATHER.backward(0, [None, row], [cotangent], [gradient, None], [plan], allocate)
    assert gradient.tolist() == [[1.0] * 3] * 2


def test_nothing_wanted_is_nothing_done() -> None:
    row = torch.tensor([1, 0], dtype=torch.uint8)
    GATHER.backward(0, [None, row], [torch.ones(2, 3)], [None, None], None, None)
    assert GATHER.reads([False, False]) == (False, False)


def test_an_order_is_made_once() -> None:
    other = ADALN.with_order(accumulate="float64")
    assert other is ADALN.with_order(accumulate="float64", block=256)
    assert other is not ADALN
    assert other.with_order(accumulate="float32") is ADALN
    assert (other.block, other.accumulate) == (256, "float64")


def test_deferred_errors_belong_to_the_next_call() -> None:
    table, row = torch.ones(3, 2), torch.tensor([0, 3])
    out = torch.empty(2, 2)
    GATHER.forward(0, [table, row], [out], None, "deferred", {})
    with pytest.raises(IndexError, match=r"an earlier deferred call of row_gather: row\[1\] is not in 0\.\.3"):
        GATHER.forward(0, [table, torch.tensor([0, 1])], [out], None, "now", {})
    GATHER.forward(0, [table, row], [out], None, "deferred", {})
    with pytest.raises(IndexError, match="an earlier deferred call"):
        _native.synchronize(-1, 0)
    _native.synchronize(-1, 0)
    GATHER.forward(0, [table, torch.tensor([2, 1])], [out], None, "now", {})


def test_calls_leave_the_interpreter_to_others() -> None:
    """Threads that share kernels, plans and tables get their own results."""
    table = tensor(random(1, (9, 6 * 64), "float32"), "float32")
    given = [torch.from_numpy(indices(2, 2000, 3)), torch.from_numpy(indices(3, 2000, 3))]
    plan = plan_of(ADALN, 0, given, 9)
    expected = table[given[0] * 3 + given[1]].reshape(2000, 6, 64).transpose(0, 1)

    def one(_: int) -> bool:
        out = torch.empty(6, 2000, 64)
        ADALN.forward(0, [table, *given], [out], [plan], "now", {})
        return torch.equal(out, expected)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(one, range(16)))
