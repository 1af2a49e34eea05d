"""The native module over CPU tensors of PyTorch: metadata, bytes of every kernel, special values, orders, the compiler."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from native_cases import (
    ADALN,
    FLOATS,
    GATHER,
    INTS,
    KERNELS,
    SCATTER,
    assert_bits,
    bits,
    indices,
    plan_of,
    poisoned,
    random,
    tensor,
)
from reference import adaln_rows, ordered_sum

from rowloom import _native


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
    assert (repr(rows), repr(ADALN.inputs[1].rows), repr(ADALN.inputs[2].rows)) == ("Extent(R)", "Extent(R / 3)", "Extent(3)")
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


def test_nothing_wanted_is_nothing_done() -> None:
    row = torch.tensor([1, 0], dtype=torch.uint8)
    GATHER.backward(0, [None, row], [torch.ones(2, 3)], [None, None], None, None)
    assert GATHER.reads([False, False]) == (False, False)


def nvrtc_version(library: str) -> str:
    """As another process finds it, since each looks once."""
    say = "from rowloom import _native; print(_native.nvrtc_version())"
    there = {**os.environ, "ROWLOOM_NVRTC": library}
    return subprocess.run([sys.executable, "-c", say], env=there, capture_output=True, text=True, check=True).stdout.strip()


def test_the_compiler_is_the_one_that_is_named(tmp_path: Path) -> None:
    assert nvrtc_version(str(tmp_path / "libnvrtc.so")) == "None"
    named = os.environ.get("ROWLOOM_NVRTC")
    if not named:
        pytest.skip("skipped: ROWLOOM_NVRTC names no NVRTC")
    major, minor = ctypes.c_int(), ctypes.c_int()
    assert ctypes.CDLL(named).nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)) == 0
    assert nvrtc_version(named) == f"({major.value}, {minor.value})"


def test_an_order_is_made_once() -> None:
    other = ADALN.with_order(accumulate="float64")
    assert other is ADALN.with_order(accumulate="float64", block=256)
    assert other is not ADALN
    assert other.with_order(accumulate="float32") is ADALN
    assert (other.block, other.accumulate) == (256, "float64")
