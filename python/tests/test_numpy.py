"""`rowloom.numpy`: the kernels as functions over arrays."""

import copy
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from reference import adaln_rows, chunks, ordered_sum, rounded

import rowloom
from rowloom import _native
from rowloom import numpy as rn
from rowloom import numpy as rowloom_numpy

needs_bfloat16 = pytest.mark.skipif(find_spec("ml_dtypes") is None, reason="ml_dtypes, NumPy's bfloat16, is not installed")
FLOATS = ["float32", "float16", pytest.param("bfloat16", marks=needs_bfloat16)]
INTS = [np.uint8, np.int32, np.int64]


def element(dtype: str) -> np.dtype[Any]:
    if dtype == "bfloat16":
        import ml_dtypes

        bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return bfloat16
    return np.dtype(dtype)


def array(values: NDArray[np.float32], dtype: str) -> NDArray[Any]:
    """Values that the type holds exactly."""
    result = values.astype(element(dtype))
    assert np.array_equal(result.astype(np.float32), values)
    return result


def random(seed: int, shape: tuple[int, ...], dtype: str) -> NDArray[np.float32]:
    return rounded(np.random.default_rng(seed).standard_normal(shape), dtype)


def indices(seed: int, positions: int, bound: int, dtype: Any = np.int64) -> NDArray[Any]:
    return np.random.default_rng(seed).integers(0, bound, positions).astype(dtype)


def assert_bytes(found: NDArray[Any], expected: NDArray[Any]) -> None:
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert found.tobytes() == expected.tobytes()


def test_every_kernel_is_a_function() -> None:
    names = [kernel.name for kernel in rowloom.kernels()]
    assert set(names) <= set(dir(rn))
    assert {"adaln_row_gather", "row_gather", "row_scatter_sum"} <= set(names)
    assert rn.row_gather is rn.row_gather
    with pytest.raises(AttributeError, match="module 'rowloom.numpy' has no kernel 'rows'; it has adaln_row_gather, "):
        rn.rows  # noqa: B018
    assert rowloom.__version__ == _native.__version__


def test_signatures_and_documentation() -> None:
    assert str(inspect.signature(rn.adaln_row_gather)) == "(table, timestep, modality, *, plan=None)"
    assert str(inspect.signature(rn.row_scatter_sum)) == "(rows, row, *, R, plan=None)"
    documentation = inspect.getdoc(rn.adaln_row_gather) or ""
    assert documentation.startswith("Six modulation vectors per packed position")
    assert "modality: Index<I, 3>" in documentation
    assert repr(rn.row_gather) == "<rowloom kernel row_gather(table, row, *, plan=None)>"


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("index", INTS)
def test_gather(dtype: str, index: Any) -> None:
    table = array(random(1, (12, 42), dtype), dtype)
    timestep, modality = indices(2, 300, 4, index), indices(3, 300, 3, index)
    expected = chunks(table, adaln_rows(timestep, modality), 6)
    plan = rn.adaln_row_gather.plan(timestep, modality, rows=12)
    assert (plan.positions, plan.rows) == (300, 12)
    by_name = rn.adaln_row_gather.plan(modality=modality, timestep=timestep, rows=12)
    for given in (None, plan, [plan], by_name):
        out = rn.adaln_row_gather(table, timestep, modality=modality, plan=given)
        assert isinstance(out, tuple)
        for found, chunk in zip(out, expected, strict=True):
            assert_bytes(found, np.ascontiguousarray(chunk))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("accumulate", ["float32", "float64"])
@pytest.mark.parametrize("block", [256, 7])
def test_gradients_are_ordered_sums(dtype: str, accumulate: str, block: int) -> None:
    function = rn.adaln_row_gather.with_order(block=block, accumulate=accumulate)
    assert function is rn.adaln_row_gather.with_order(block=block, accumulate=accumulate)
    table = array(random(1, (9, 18), dtype), dtype)
    timestep, modality = indices(2, 1500, 2), indices(3, 1500, 3)
    rows = adaln_rows(timestep, modality)
    cotangents = random(4, (6, 1500, 3), dtype)
    plan = function.plan(timestep, modality, rows=9)
    for stored, gradient_dtype in ((dtype, None), ("float32", np.float32)):
        expected = np.concatenate([ordered_sum(one, rows, 9, stored, block, accumulate) for one in cotangents], 1)
        for given in (None, plan):
            (found,) = function.backward(
                list(array(cotangents, dtype)), table, timestep, modality, gradient_dtype=gradient_dtype, plan=given
            )
            assert_bytes(found, array(expected, stored))


def test_absent_cotangents_are_zeros() -> None:
    table, timestep, modality = array(random(1, (3, 12), "float32"), "float32"), indices(2, 5, 1), indices(3, 5, 3)
    last = random(4, (5, 2), "float32")
    (found,) = rn.adaln_row_gather.backward([None] * 5 + [last], table, timestep, modality, wants=["table"])
    zeros = np.zeros_like(last)
    (expected,) = rn.adaln_row_gather.backward([zeros] * 5 + [last], table, timestep, modality)
    assert_bytes(found, expected)
    assert not found[:, :10].any()
    assert rn.adaln_row_gather.backward([None] * 6, table, timestep, modality, wants=()) == ()


def test_scatter_takes_a_row_count() -> None:
    rows, row = random(1, (400, 5), "float32"), indices(2, 400, 8, np.int32)
    out = rn.row_scatter_sum(rows, row, R=9)
    assert_bytes(out, ordered_sum(rows, row, 9, "float32", 256, "float32"))
    assert_bytes(rn.row_scatter_sum(rows, row, R=np.int64(9), plan=rn.row_scatter_sum.plan(row, rows=9)), out)
    for counts in ({"R": 9}, {}):
        (gradient,) = rn.row_scatter_sum.backward(out, rows, row, **counts)
        assert_bytes(gradient, out[row])


def test_views() -> None:
    whole = random(1, (20, 31), "float32")
    table, row = whole[::3, 5:12], indices(2, 60, 7)[::2]
    assert_bytes(rn.row_gather(table, row), table[row])
    (gradient,) = rn.row_gather.backward(whole[:15, 3:10][[0] * 30], table, row)
    assert_bytes(gradient, ordered_sum(whole[:15, 3:10][[0] * 30], row, 7, "float32", 256, "float32"))
    column, expanded = np.arange(4, dtype=np.float16), np.broadcast_to(np.float16(3), (5, 1))
    assert_bytes(rn.row_gather(column, np.array([3, 0])), np.array([[3], [0]], np.float16))
    assert rn.row_gather(expanded, np.array([4, 0])).tolist() == [[3.0], [3.0]]


def test_nan_payloads_and_signed_zeros_are_moved() -> None:
    table = np.array([[0x7F800001, 0xFFC12345], [0x80000000, 0x00000001]], np.uint32).view(np.float32)
    assert_bytes(rn.row_gather(table, np.array([1, 0], np.uint8)), table[::-1].copy())


def test_plans() -> None:
    row = indices(1, 100, 5)
    plan = rn.row_gather.plan(row, rows=5)
    table, expected = random(2, (5, 3), "float32"), row.copy()
    row[:] = 0
    assert_bytes(rn.row_gather(table, row, plan=plan), table[expected])
    twice = plan.repeat(2)
    assert twice.sizes == rn.row_gather.plan(np.tile(expected, 2), rows=5).sizes
    assert_bytes(rn.row_gather(table, np.tile(row, 2), plan=twice), table[np.tile(expected, 2)])
    assert repr(twice) == "RowPlan(positions=200, rows=5)"


def test_misuse() -> None:
    table, row = np.ones((3, 2), np.float32), np.array([0, 2])
    no_array: Any = [1.0]
    rn: Any = rowloom_numpy
    misuses: list[tuple[Callable[[], object], type[Exception], str]] = [
        (lambda: rn.row_gather(table), TypeError, r"row_gather\(table, row, \*, plan=None\) was not given row"),
        (lambda: rn.row_gather(no_array, row), TypeError, "row_gather: table is a list; rowloom.numpy takes arrays"),
        (lambda: rn.row_gather(table, row[None, None]), ValueError, "row has 3 axes, but must have 1"),
        (lambda: rn.row_gather(table, row + 1), IndexError, r"row\[1\] is 3, but it must be in 0\.\.3"),
        (lambda: rn.row_gather(table, row.astype(np.int16)), TypeError, "row holds i16, but must hold u8, i32 or i64"),
        (lambda: rn.row_scatter_sum(table[:2], row), TypeError, "was not given R"),
        (lambda: rn.row_scatter_sum(table[:2], row, R=0), ValueError, "row_scatter_sum: R is 0; it must be at least 1"),
        (lambda: rn.row_scatter_sum(table[:2], row, R=2.5), TypeError, "R is 2.5; it must be a number of rows"),
        (lambda: rn.row_gather.plan(row), TypeError, r"row_gather\.plan\(row, \*, rows, expression=0\) needs rows"),
        (lambda: rn.row_gather.plan(row, row, rows=3), TypeError, "takes 1 indices, not 2"),
        (lambda: rn.row_gather.plan(row, rows=3, expression=1), ValueError, "has 1 row expressions; there is no number 1"),
        (lambda: rn.row_gather.plan(row[:0], rows=3), ValueError, "row has 0 positions; it must have at least 1"),
        (lambda: rn.row_gather.plan(row, rows=2), IndexError, r"row\[1\] is 2, but it must be in 0\.\.2"),
        (lambda: rn.adaln_row_gather.plan(row, row, rows=10), ValueError, "R must be a multiple of 3"),
        (lambda: rn.row_gather.plan(row, rows=3).repeat(0), ValueError, "has 0 sequences; it must have at least 1"),
        (lambda: rn.row_gather.backward([], table, row), TypeError, "row_gather.backward takes 1 cotangents, not 0"),
        (lambda: rn.row_gather.backward(table, table, row, wants=["row"]), ValueError, "no gradient of 'row'; it has"),
        (lambda: rn.row_gather.plan(row, rows=9.0), TypeError, "row_gather: rows is 9.0; it must be a number of rows"),
        (lambda: rn.row_gather.plan(row, rows=3 * 2**70), ValueError, "the limit is 9223372036854775807"),
        (lambda: rn.row_gather.plan(row, rows=3, expression="a"), TypeError, "expression is 'a'; it must be the number"),
        (lambda: rn.row_gather.plan(row, rows=3).repeat(2**63), ValueError, "the limit is 9223372036854775807 positions"),
        (lambda: rn.row_gather.plan(row, rows=3).repeat(2.0), TypeError, "2.0; it must be a number of sequences"),
        (lambda: rn.row_gather(table, row, plan=5), TypeError, "plan is an int; row_gather.plan"),
        (lambda: rn.row_gather(table, row, plan="plan"), TypeError, "plan is a str; row_gather.plan"),
        (lambda: rn.row_gather.backward(5, table, row), TypeError, r"cotangents\[0\] is an int; rowloom.numpy takes arrays"),
        (lambda: rn.row_gather(np.ma.array(table, mask=True), row), TypeError, "table is a masked array, whose mask is not read"),
        (lambda: rn.row_gather(table, np.ma.array(row, mask=[0, 1])), TypeError, "row is a masked array"),
        (lambda: rn.row_gather.plan(np.ma.array(row), rows=3), TypeError, "row is a masked array"),
        (lambda: rn.row_gather.backward(np.ma.array(table), table, row), TypeError, r"cotangents\[0\] is a masked array"),
        (lambda: rn.row_gather.backward(table[:2], table, row, wants=5), TypeError, "wants is 5; it must be names of inputs"),
        (lambda: rn.row_gather.backward([[1.0]], table, row), TypeError, r"cotangents\[0\] is a list"),
        (lambda: rn.row_gather.backward(table, table, row, wants="row"), ValueError, "no gradient of 'row'; it has"),
        (lambda: rn.row_scatter_sum.backward(table, table[:2], row, R=3, gradient_dtype=np.int32), ValueError, "gradient_dtype is int32"),
        (lambda: rn.row_gather.backward(table, table, row, wants=(), gradient_dtype=np.float16), ValueError, "gradient_dtype is float16"),
        (lambda: rn.row_gather.with_order(accumulate="half"), ValueError, "must be float32 or float64"),
        (lambda: rn.row_gather.with_order(acumulate="f64"), TypeError, r"with_order\(.*\) has no argument 'acumulate'"),
        (lambda: rn.row_gather.plan(row, R=3), TypeError, r"expression=0\) has no argument 'R'; the row count is rows="),
        (lambda: rn.row_gather(row, table), TypeError, "table holds i64, but must hold f32, f16 or bf16"),
        (lambda: rn.adaln_row_gather(table[0], row, row), ValueError, r"table has 1 axis, but must have 2: \(rows, 6·H\)"),
        (lambda: rn.register(_native).nope, AttributeError, "rowloom._native has no kernel 'nope'; it has adaln_row_gather, "),
        (lambda: rn.row_scatter_sum.backward(None, table[:2], row), TypeError, r"backward\(cotangents, rows, row, .* was not given R"),
    ]
    for call, kind, sentence in misuses:
        with pytest.raises(kind, match=sentence):
            call()
    assert_bytes(rn.row_gather(table, row), table[row])


def test_one_name_is_one_gradient() -> None:
    table, row = random(1, (3, 2), "float32"), np.array([0, 2, 0])
    cotangent = random(2, (3, 2), "float32")
    expected = rn.row_gather.backward(cotangent, table, row)
    found = rn.row_gather.backward(cotangent, table, row, wants="table")
    assert len(found) == 1
    assert_bytes(found[0], expected[0])


def test_a_plan_cannot_be_changed() -> None:
    plan: Any = rn.row_gather.plan(np.array([0, 2]), rows=3)
    for name in ("state", "sizes"):
        with pytest.raises(AttributeError):
            setattr(plan, name, getattr(plan, name))
    with pytest.raises(ValueError, match="read-only"):
        plan.state[0] = 1
    assert copy.deepcopy(plan) is plan
    assert copy.copy(plan) is plan
    with pytest.raises(TypeError, match="a RowPlan cannot be pickled"):
        pickle.dumps(plan)


def test_functions_are_copied_and_saved_by_name() -> None:
    table, row = random(1, (3, 2), "float32"), np.array([0, 2])
    for function in (rn.row_gather, rn.row_gather.with_order(block=7), rn.register(_native).row_gather):
        for copied in (copy.deepcopy({"f": function})["f"], pickle.loads(pickle.dumps(function))):
            assert_bytes(copied(table, row), table[row])
    assert copy.deepcopy(rn.row_gather) is rn.row_gather
    exact = rn.row_gather.with_order(accumulate="float64")
    assert rn.row_gather.with_order(accumulate="f64") is exact
    assert exact.with_order(accumulate="float32") is rn.row_gather is rn.register(_native).row_gather
    assert pickle.loads(pickle.dumps(exact)) is exact


def test_a_module_of_own_kernels() -> None:
    own = rn.register(_native)
    table, row = np.ones((3, 2), np.float32), np.array([0, 2])
    assert_bytes(own.row_gather(table, row), table[row])
    older = SimpleNamespace(__name__="mine", __version__="0.0.1", kernels=_native.kernels)
    with pytest.raises(ImportError, match=r"mine was built with rowloom 0\.0\.1, but this is .*: build it anew"):
        rn.register(older)


def test_a_missing_extension_says_how_to_get_one() -> None:
    program = "import sys; sys.modules['rowloom._native'] = None; import rowloom"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "ImportError: rowloom's extension module rowloom._native cannot be loaded" in done.stderr
    assert "`cargo xtask wheel`" in done.stderr


def test_neither_numpy_nor_torch_is_imported_for_you() -> None:
    program = "import sys, rowloom; rowloom.kernels(); assert not {'numpy', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
