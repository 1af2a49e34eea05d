"""What is refused, in which words and as which class; and that everything works afterwards."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from rowloom import _native

KERNELS = {kernel.name: kernel for kernel in _native.kernels()}
ADALN, GATHER, SCATTER = KERNELS["adaln_row_gather"], KERNELS["row_gather"], KERNELS["row_scatter_sum"]

TABLE = torch.arange(6, dtype=torch.float32).reshape(3, 2)
ROW = torch.tensor([0, 2, 1, 1])
OUT = torch.empty(4, 2)
WIDE = torch.zeros(9, 12)
TIMESTEP = torch.tensor([0, 1, 2, 0])
MODALITY = torch.tensor([0, 1, 2, 0])
SIX = torch.empty(6, 4, 2)


def gather(table: Any = TABLE, row: Any = ROW, out: Any = OUT, plans: Any = None, check: Any = "now", counts: Any = None) -> None:
    GATHER.forward(0, [table, row], [out], plans, check, {} if counts is None else counts)


def adaln(table: Any = WIDE, timestep: Any = TIMESTEP, modality: Any = MODALITY, out: Any = SIX, plans: Any = None) -> None:
    ADALN.forward(0, [table, timestep, modality], [out] if isinstance(out, torch.Tensor) else out, plans, "now", {})


def backward(**given: Any) -> None:
    arguments = {"row": ROW, "out": torch.ones(4, 2), "table": torch.empty(3, 2), "plans": None, **given}
    cotangents, gradients = [arguments["out"]], [arguments["table"], arguments.get("d_row")]
    GATHER.backward(0, [None, arguments["row"]], cotangents, gradients, arguments["plans"], None)


def plan(row: torch.Tensor = ROW, rows: int = 3) -> tuple[torch.Tensor, Any]:
    state = torch.empty(_native.plan_elements(len(row), rows, 256), dtype=torch.int32)
    return state, GATHER.plan(0, 0, [row], {"R": rows}, state)


def fake() -> torch.Tensor:
    with FakeTensorMode():
        return torch.zeros(3, 2)


def freed() -> torch.Tensor:
    table = torch.zeros(3, 2)
    table.untyped_storage().resize_(0)
    return table


def read_only(*shape: int) -> Any:
    array = np.zeros(shape, np.float32)
    array.flags.writeable = False
    return array


def misaligned() -> Any:
    return np.zeros(25, np.uint8)[1:].view(np.float32).reshape(3, 2)


def uneven() -> Any:
    return np.lib.stride_tricks.as_strided(np.zeros(64, np.float32), (3, 2), (10, 4))


def no_such_gpu() -> None:
    _native.synchronize(1000, 0)


INDICES: list[tuple[Callable[[], object], str]] = [
    (lambda: gather(row=torch.tensor([0, 3, 9])[:, None].expand(3, 1), out=OUT[:3]), "row[1] is 3, but it must be in 0..3"),
    (lambda: gather(row=torch.tensor([0, -2, 0, 0])), "row[1] is -2, but it must be in 0..3"),
    (lambda: gather(row=torch.tensor([2**63 - 1, 0, 0, 0])), "row[0] is 9223372036854775807, but it must be in 0..3"),
    # The combined row exists.
    (lambda: adaln(modality=torch.tensor([0, 0, 0, 3])), "modality[3] is 3, but it must be in 0..3"),
    # At one position the index declared first.
    (
        lambda: adaln(timestep=torch.tensor([0, 3, 0, 0]), modality=torch.tensor([0, 5, 0, 0])),
        "timestep[1] is 3, but it must be in 0..3",
    ),
    (
        lambda: adaln(timestep=torch.tensor([0, 0, 3, 0]), modality=torch.tensor([0, 5, 0, 0])),
        "modality[1] is 5, but it must be in 0..3",
    ),
    (lambda: plan(torch.tensor([0, 1, 3])), "row[2] is 3, but it must be in 0..3"),
    (lambda: backward(row=torch.tensor([0, 1, 7, 1])), "row[2] is 7, but it must be in 0..3"),
    (lambda: SCATTER.forward(0, [TABLE, ROW[:3]], [OUT[:2]], None, "now", {}), "row[1] is 2, but it must be in 0..2"),
]

TYPES: list[tuple[Callable[[], object], str]] = [
    (lambda: gather(row=ROW.to(torch.int16)), "row holds i16, but must hold u8, i32 or i64"),
    (lambda: gather(row=ROW.bool()), "row holds bool, but must hold u8, i32 or i64"),
    (lambda: gather(row=ROW.float()), "row holds f32, but must hold u8, i32 or i64"),
    # Their shapes do not fit either, which is not what is wrong with them.
    (lambda: gather(table=ROW, row=TABLE), "table holds i64, but must hold f32, f16 or bf16"),
    (lambda: adaln(table=TIMESTEP, timestep=WIDE), "table holds i64, but must hold f32, f16 or bf16"),
    (lambda: adaln(timestep=WIDE), "timestep holds f32, but must hold u8, i32 or i64"),
    (lambda: gather(row=np.zeros(4, np.uint32)), "row holds u32, but must hold u8, i32 or i64"),
    (lambda: gather(table=TABLE.double()), "table holds f64, but must hold f32, f16 or bf16"),
    (lambda: gather(table=TABLE.double().numpy()), "table holds f64, but must hold f32, f16 or bf16"),
    (lambda: gather(table=TABLE.int()), "table holds i32, but must hold f32, f16 or bf16"),
    (lambda: gather(table=TABLE.to(torch.complex64)), "table holds complex64, but must hold f32, f16 or bf16"),
    (lambda: gather(out=OUT.half()), "out holds f16, but must hold f32: T is f32 in table"),
    (lambda: adaln(modality=MODALITY.int()), "modality holds i32, but must hold i64: I is i64 in timestep"),
    (
        lambda: gather(table=torch.quantize_per_tensor(TABLE, 0.1, 0, torch.quint8)),
        "table holds quint8, but must hold f32, f16 or bf16",
    ),
    (
        lambda: gather(table=np.zeros((3, 2), ">f4")),
        "table holds f32 in another byte order than this machine's: convert it with astype",
    ),
    (lambda: gather(table=[[1.0, 2.0]]), "table is of type list, but must be a torch.Tensor or a numpy.ndarray"),
    (lambda: gather(row=None), "row is of type NoneType, but must be a torch.Tensor or a numpy.ndarray"),
    (lambda: gather(out=memoryview(b"12345678")), "out is of type memoryview, but must be a torch.Tensor or a numpy.ndarray"),
    (lambda: backward(table=torch.empty(3, 2, dtype=torch.float64)), "d_table holds f64, but must hold f32, f16 or bf16"),
    (lambda: backward(out=torch.ones(4, 2).int()), "d_out holds i32, but must hold f32, f16 or bf16"),
    (lambda: GATHER.plan(0, 0, [ROW], {"R": 3}, torch.empty(64)), "the state of the plan holds f32, but must hold i32"),
]

VALUES: list[tuple[Callable[[], object], str]] = [
    # Axes, strides, sizes.
    (lambda: gather(table=TABLE[None]), "table has 3 axes, but must have 2: rows and columns"),
    (lambda: gather(table=TABLE[None, None]), "table has 4 axes, but must have at most 3"),
    (lambda: gather(row=torch.tensor(1)), "row has 0 axes, but must have 1"),
    (lambda: adaln(table=torch.zeros(108)), "table has 1 axis, but must have 2: (rows, 6·H)"),
    (lambda: adaln(table=np.zeros(108, np.float32)), "table has 1 axis, but must have 2: (rows, 6·H)"),
    (lambda: adaln(out=SIX[0]), "out has 2 axes, but must have 3: several tensors of rows and columns"),
    (lambda: adaln(out=SIX[:5]), "out has 5 tensors, but must have 6: it is declared so"),
    (lambda: adaln(out=[SIX[0]] * 5), "adaln_row_gather has 1 outputs, not 5"),
    (
        lambda: gather(table=TABLE.t()),
        "table has a column stride of 2; columns must follow one another (stride 1): make a contiguous copy",
    ),
    (
        lambda: gather(table=TABLE[:, :1].expand(3, 2)),
        "table has a column stride of 0; columns must follow one another (stride 1): make a contiguous copy",
    ),
    (
        lambda: gather(table=TABLE.numpy()[::-1]),
        "table has a row stride of -2; it must not be negative: make a contiguous copy",
    ),
    (
        lambda: gather(row=ROW.numpy()[::-1]),
        "row has a row stride of -1; it must not be negative: make a contiguous copy",
    ),
    (lambda: gather(table=uneven()), "table has a row stride of 10 bytes, which is no multiple of 4: make a contiguous copy"),
    (lambda: gather(row=ROW[:0]), "row has 0 positions; it must have at least 1"),
    (lambda: gather(table=TABLE[:, :0]), "table has 0 columns; it must have at least 1"),
    (lambda: gather(table=TABLE.numpy()[:0]), "table has 0 rows; it must have at least 1"),
    (lambda: gather(out=OUT[:3]), "out has 3 rows, but must have 4: S is 4 in row"),
    (lambda: gather(out=torch.empty(4, 3)), "out has 3 columns, but must have 2: H is 2 in table"),
    (lambda: gather(row=ROW.reshape(2, 2)), "row has 2 columns, but must have 1: an index is one number a position"),
    (lambda: adaln(table=torch.zeros(9, 13)), "table has 13 columns, which is no multiple of 6: it has 6 chunks of H columns"),
    (
        lambda: adaln(table=torch.zeros(10, 12)),
        "adaln_row_gather: timestep is in 0..R / 3, and R / 3 is no whole number for R = 10; R must be a multiple of 3",
    ),
    (
        lambda: gather(out=torch.empty(1, 2).expand(4, 2)),
        "out is written, but its rows overlap: 2 columns with a row stride of 0",
    ),
    # Memory.
    (lambda: gather(out=TABLE), "out is written, but it shares memory with table: pass memory of its own"),
    (
        lambda: adaln(out=[SIX[0], SIX[1], SIX[2], SIX[1], SIX[4], SIX[5]]),
        "out[3] is written, but it shares memory with out[1]: pass memory of its own",
    ),
    (
        lambda: adaln(out=torch.empty(4, 6, 2).transpose(0, 1)),
        "out[1] is written, but it shares memory with out[0]: pass memory of its own",
    ),
    (lambda: gather(out=read_only(4, 2)), "out is written, but it is read-only: pass an array that can be written"),
    (lambda: backward(table=read_only(3, 2)), "d_table is written, but it is read-only: pass an array that can be written"),
    (
        lambda: gather(table=torch.view_as_complex(torch.zeros(3, 2)).conj().imag, out=OUT[:, :1]),
        "table is a negated view of its memory: pass table.resolve_neg()",
    ),
    (lambda: gather(table=freed()), "table is a Tensor without memory; it must be a dense tensor with memory of its own"),
    (lambda: gather(table=fake()), "table is a FakeTensor without memory; it must be a dense tensor with memory of its own"),
    (lambda: gather(table=TABLE.to("meta")), "table is on meta, but rowloom runs on cpu and cuda"),
    (
        lambda: gather(table=TABLE.to_sparse()),
        "table is of layout torch.sparse_coo; it must be a dense tensor with memory of its own",
    ),
    (
        lambda: gather(table=TABLE.to_sparse_csr()),
        "table is of layout torch.sparse_csr; it must be a dense tensor with memory of its own",
    ),
    (
        lambda: gather(table=TABLE.to_mkldnn()),
        "table is of layout torch._mkldnn; it must be a dense tensor with memory of its own",
    ),
    # Plans.
    (lambda: gather(plans=[plan(ROW[:3])]), "the plan of row is for 3 positions, but the call has 4"),
    (lambda: gather(plans=[plan(rows=5)]), "the plan of row is for 5 rows, but the call has 3"),
    (lambda: gather(plans=[plan(), plan()]), "row_gather has 1 plans, not 2"),
    (lambda: gather(plans=[(plan()[0][:7], plan()[1])]), "the state of the plan has 7 rows, but must have 23: "),
    (lambda: gather(plans=[(plan()[0], (4, 3, 256, 99, 0, 0))]), "a plan of these sizes has 3 to 3 blocks, not 99"),
    (
        lambda: gather(plans=[(torch.empty(46, dtype=torch.int32)[::2], plan()[1])]),
        "the state of the plan has a column stride of 2; columns must follow one another",
    ),
    (lambda: GATHER.plan(0, 1, [ROW], {"R": 3}, torch.empty(8)), "row_gather has 1 row expressions, not 2"),
    (lambda: GATHER.plan(0, 0, [], {"R": 3}, torch.empty(8)), "row_gather has 1 indices in this expression, not 0"),
    (lambda: GATHER.plan(0, 0, [ROW], {}, torch.empty(8)), "row_gather: no tensor determines R; give its value"),
    (lambda: GATHER.plan(0, 0, [ROW], {"R": 0}, torch.empty(8)), "the plan has 0 rows; it must have at least 1"),
    (lambda: _native.plan_elements(0, 3, 256), "the plan has 0 positions; it must have at least 1"),
    (lambda: _native.plan_elements(2**33, 3, 256), "the plan has 8589934592 positions; the limit is 4294967295"),
    (lambda: _native.repeat_plan(0, plan(), 0, torch.empty(8)), "the plan has 0 positions; it must have at least 1"),
    # Arguments.
    (lambda: GATHER.forward(0, [TABLE], [OUT], None, "now", {}), "row_gather has 2 inputs, not 1"),
    (lambda: gather(check="later"), 'check is "later", but must be now or deferred'),
    (lambda: gather(counts={"T": 3}), "row_gather has no row count T; it has R"),
    (lambda: gather(counts={"R": 4}), "table has 3 rows, but must have 4: it has R rows, and R is 4 in the call"),
    (lambda: gather(counts={"R": -1}), "R is -1, but must be a number of rows"),
    (lambda: GATHER.with_order(block=0), "row_gather: a block of 0 positions sums nothing; write `block = 256`"),
    (lambda: GATHER.with_order(block=2**32), "block is 4294967296, but must be a number of positions from 1 to 2^32 - 1"),
    (lambda: GATHER.with_order(accumulate="half"), 'accumulate is "half", but must be float32 or float64'),
    (lambda: GATHER.with_order(accumulate=3), "accumulate is 3, but must be float32 or float64"),
    (lambda: backward(d_row=ROW.float()), "row_gather has no gradient of row, which is an index"),
    (lambda: backward(row=None), "the backward of row_gather reads row, which is not there for these gradients: give it"),
    (lambda: GATHER.reads([True]), "row_gather has 2 inputs, not 1"),
    (lambda: GATHER.reads([True, True]), "row_gather has no gradient of row, which is an index"),
    (
        lambda: SCATTER.forward(0, [TABLE, ROW[:3]], [OUT], None, "deferred", {}),
        "row_scatter_sum sums by row and a deferred call does not wait",
    ),
    (lambda: _native.synchronize(-2, 0), "device is -2, but must be the number of a GPU, or -1 for the CPU"),
]


def check(call: Callable[[], object], kind: type[Exception], sentence: str) -> None:
    table, row = TABLE.clone(), ROW.clone()
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    assert sentence in str(caught.value)
    # Inputs are untouched, and the next call is right.
    assert torch.equal(TABLE, table)
    assert torch.equal(ROW, row)
    gather()
    assert torch.equal(OUT, TABLE[ROW])


@pytest.mark.parametrize(("call", "sentence"), INDICES, ids=[sentence for _, sentence in INDICES])
def test_index_errors(call: Callable[[], object], sentence: str) -> None:
    check(call, IndexError, sentence)


@pytest.mark.parametrize(("call", "sentence"), TYPES, ids=[sentence for _, sentence in TYPES])
def test_type_errors(call: Callable[[], object], sentence: str) -> None:
    check(call, TypeError, sentence)


@pytest.mark.parametrize(("call", "sentence"), VALUES, ids=[sentence for _, sentence in VALUES])
def test_value_errors(call: Callable[[], object], sentence: str) -> None:
    check(call, ValueError, sentence)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_driver_is_a_runtime_error() -> None:
    check(no_such_gpu, RuntimeError, "cuda")


def test_misaligned_arrays_are_refused_with_their_address() -> None:
    array = misaligned()
    address = array.__array_interface__["data"][0]
    check(
        lambda: gather(table=array),
        ValueError,
        f"table begins at {address:#x}, but must begin at a multiple of 4 bytes: copy it into a tensor of its own",
    )


def test_a_state_that_nobody_made_is_an_exception() -> None:
    """A panic of the Rust side reaches Python; the process goes on."""
    state, sizes = plan()
    state.fill_(0x7FFFFFFF)
    with pytest.raises(BaseException, match=".") as caught:
        gather(plans=[(state, sizes)])
    assert type(caught.value).__name__ == "PanicException"
    gather()
    assert torch.equal(OUT, TABLE[ROW])
