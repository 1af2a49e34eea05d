"""Errors: their classes and sentences, and that everything works after them."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_cases import ROWS, all_same_bytes, gathered, normal, packed

import rowloom.torch as rt
from rowloom import _native
from rowloom import numpy as rn

f = rt.adaln_row_gather

MODES = ["automatic", "off", "deferred", "plan"]


def call(mode: str, table: Tensor, timestep: Tensor, modality: Tensor) -> None:
    """A call that finds what is wrong with an index, however it does."""
    match mode:
        case "plan":
            f(table, timestep, modality, plan=f.plan(timestep, modality, rows=table.shape[0]))
        case "deferred":
            f(table, timestep, modality, check="deferred")
            rt.synchronize()
        case "off":
            with rt.auto_plans(False):
                f(table, timestep, modality)
        case _:
            f(table, timestep, modality)


BAD = [
    ("timestep", 3, torch.int64),
    ("timestep", -1, torch.int64),
    ("timestep", -(2**63), torch.int64),
    ("timestep", 2**63 - 1, torch.int64),
    ("timestep", 6148914691236517206, torch.int64),  # times 3 it wraps to 2
    ("timestep", -(2**31), torch.int32),
    ("timestep", 255, torch.uint8),
    ("modality", 3, torch.int64),
    ("modality", -1, torch.int32),
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("argument", "value", "index"), BAD)
def test_a_bad_index_is_named_and_nothing_breaks(
    device: str, argument: str, value: int, index: torch.dtype, mode: str
) -> None:
    table, timestep, modality = packed(64, 8, device, index=index)
    before = table.clone()
    bad = {"timestep": timestep.clone(), "modality": modality.clone()}
    bad[argument][[40, 41]] = value
    with pytest.raises(IndexError, match=rf"{argument}\[40\]"):
        call(mode, table, bad["timestep"], bad["modality"])
    assert torch.equal(table, before)
    assert all_same_bytes(f(table, timestep, modality), gathered(table, timestep, modality))
    rt.synchronize()


@pytest.mark.parametrize("mode", ["automatic", "off", "plan"])
def test_values_and_bounds_are_said(device: str, mode: str) -> None:
    table, timestep, modality = packed(4, 8, device)
    timestep.zero_()
    modality[2] = 3
    with pytest.raises(IndexError, match=r"modality\[2\] is 3, but it must be in 0\.\.3"):
        call(mode, table, timestep, modality)


def test_a_pair_is_wrong_although_its_row_exists(device: str) -> None:
    table, timestep, modality = packed(1, 8, device)
    timestep[0], modality[0] = 0, 3
    for mode in MODES:
        with pytest.raises(IndexError, match=r"modality\[0\]"):
            call(mode, table, timestep, modality)


def test_the_smallest_position_and_the_first_argument_are_named(device: str) -> None:
    table, timestep, modality = packed(64, 8, device)
    timestep[50], modality[50], modality[60] = 9, 9, 9
    for mode in MODES:
        with pytest.raises(IndexError, match=r"timestep\[50\]"):
            call(mode, table, timestep, modality)


def test_a_padded_tail_is_named_at_its_start(device: str) -> None:
    table, timestep, modality = packed(64, 8, device)
    modality[59:] = -1
    for mode in MODES:
        with pytest.raises(IndexError, match=r"modality\[59\]"):
            call(mode, table, timestep, modality)


def test_a_deferred_error_comes_with_the_next_call_or_wait(device: str) -> None:
    table, timestep, modality = packed(64, 8, device)
    bad = timestep.clone()
    bad[7] = 3
    f(table, bad, modality, check="deferred")
    if device == "cuda":
        torch.cuda.synchronize()
    with pytest.raises(IndexError, match=r"timestep\[7\]"):
        f(table, timestep, modality, plan=f.plan(timestep, modality, rows=ROWS))
    assert all_same_bytes(f(table, timestep, modality), gathered(table, timestep, modality))
    f(table, bad, modality, check="deferred")
    with pytest.raises(IndexError, match=r"timestep\[7\]"):
        rt.synchronize()
    rt.synchronize()


def without_rows(shape: tuple[int, ...], device: str) -> Tensor:
    return torch.zeros(shape, device=device)


SIZES: dict[str, tuple[Callable[[str], object], str]] = {
    "no positions": (lambda d: f(normal((9, 48), d), torch.zeros(0, dtype=torch.int64, device=d), torch.zeros(0, dtype=torch.int64, device=d)), "timestep|modality"),
    "no columns": (lambda d: f(without_rows((9, 0), d), *packed(4, 8, d)[1:]), "table"),
    "no rows": (lambda d: f(without_rows((0, 48), d), *packed(4, 8, d)[1:]), "0 rows"),
    "rows that three does not divide": (lambda d: f(normal((10, 48), d), *packed(4, 8, d)[1:]), "must be a multiple of 3"),
    "columns that six does not divide": (lambda d: f(normal((9, 47), d), *packed(4, 8, d)[1:]), "table"),
    "indices of different lengths": (lambda d: f(*packed(4, 8, d)[:2], packed(5, 8, d)[2]), "modality"),
    "an index of length one": (lambda d: f(*packed(4, 8, d)[:2], packed(1, 8, d)[2]), "modality"),
    "three dimensions of a table": (lambda d: f(normal((3, 3, 48), d), *packed(4, 8, d)[1:]), "table"),
    "no dimension of an index": (lambda d: rt.row_gather(normal((3, 8), d), torch.tensor(1, device=d)), "row"),
    "columns with a stride": (lambda d: f(normal((9, 96), d)[:, ::2], *packed(4, 8, d)[1:]), "table"),
    "no rows to sum into": (lambda d: rt.row_scatter_sum(normal((4, 8), d), packed(4, 8, d)[1], R=0), "R is 0"),
    "less than no rows": (lambda d: rt.row_scatter_sum(normal((4, 8), d), packed(4, 8, d)[1], R=-1), "R is -1"),
    "other batches": (lambda d: f(normal((9, 48), d), packed(4, 8, d)[1].view(2, 2), packed(6, 8, d)[1].view(3, 2)), "modality has shape"),
    "rows of another batch": (lambda d: rt.row_scatter_sum(normal((2, 4, 8), d), packed(4, 8, d)[1].view(2, 2), R=3), "row has shape"),
}  # fmt: skip


@pytest.mark.parametrize("name", SIZES)
def test_sizes_that_do_not_fit(device: str, name: str) -> None:
    run, argument = SIZES[name]
    with pytest.raises(ValueError, match=argument):
        run(device)
    table, timestep, modality = packed(4, 8, device)
    assert all_same_bytes(f(table, timestep, modality), gathered(table, timestep, modality))


def test_one_row_where_several_are_expected(device: str) -> None:
    row = torch.tensor([0, 1], device=device)
    with pytest.raises(IndexError, match=r"row\[1\] is 1, but it must be in 0\.\.1"):
        rt.row_gather(normal((1, 8), device), row)


@pytest.mark.parametrize("other", ["positions", "rows", "device", "block", "number"])
def test_a_plan_of_something_else_is_refused(device: str, other: str) -> None:
    table, timestep, modality = packed(64, 8, device)
    match other:
        case "positions":
            plan: object = f.plan(timestep[:63], modality[:63], rows=ROWS)
        case "rows":
            plan = f.plan(timestep, modality, rows=18)
        case "device":
            if not torch.cuda.is_available():
                pytest.skip("skipped: no CUDA device")
            there = "cpu" if device == "cuda" else "cuda"
            plan = f.plan(timestep.to(there), modality.to(there), rows=ROWS)
        case "block":
            plan = f.with_order(block=64).plan(timestep, modality, rows=ROWS)
            # A gather has no blocks of sums, but its backward has.
            table.requires_grad_()
        case _:
            plan = [f.plan(timestep, modality, rows=ROWS)] * 2
    with pytest.raises(ValueError):
        f(table, timestep, modality, plan=plan)[0].sum().backward()


def test_types_that_do_not_fit(device: str) -> None:
    table, timestep, modality = packed(4, 8, device)
    with pytest.raises(TypeError, match="timestep"):
        f(table, timestep.float(), modality)
    with pytest.raises(TypeError, match="timestep"):
        f(table, timestep.to(torch.int16), modality)
    with pytest.raises(TypeError, match="table"):
        f(table.double(), timestep, modality)
    with pytest.raises((TypeError, ValueError), match="modality"):
        f(table, timestep, modality.int())
    with pytest.raises(TypeError, match="table is a list; rowloom.torch takes tensors"):
        f([1.0], timestep, modality)
    with pytest.raises(TypeError, match="timestep is an ndarray; rowloom.torch takes tensors, rowloom.numpy arrays"):
        f(table, timestep.cpu().numpy(), modality)
    with pytest.raises(TypeError, match="plan is a Tensor"):
        f(table, timestep, modality, plan=(timestep,))


@pytest.mark.parametrize("dtype", ["bool", "int16", "uint16", "float64", "complex64", "float8_e4m3fn"])
def test_a_type_is_called_the_same_whoever_refuses_it(dtype: str) -> None:
    """The native module, which a flat call reaches, and a batch whose shapes do not fit either, which does not."""
    table, timestep, modality = packed(4, 8)
    wrong = torch.zeros(4, dtype=getattr(torch, dtype))
    with pytest.raises(TypeError) as flat:
        f(table, wrong, modality)
    with pytest.raises(TypeError) as batched:
        f(table, wrong, modality.view(2, 2))
    assert str(batched.value) == str(flat.value)
    assert str(flat.value).endswith("but must hold u8, i32 or i64")


def test_a_misused_function_says_its_signature() -> None:
    table, timestep, modality = packed(4, 8)
    signature = r"adaln_row_gather\(table, timestep, modality, \*, plan=None, check='now', gradient_dtype=None\)"
    with pytest.raises(TypeError, match=signature + " was not given modality"):
        f(table, timestep)
    with pytest.raises(TypeError, match=signature + " takes 3 inputs, 4 were given"):
        f(table, timestep, modality, modality)
    with pytest.raises(TypeError, match=signature + " has no argument 'index'"):
        f(table, timestep, modality, index=1)
    with pytest.raises(TypeError, match=signature + " was given 'table' twice"):
        f(table, timestep, modality, table=table)
    with pytest.raises(TypeError, match=r"row_scatter_sum\(rows, row, \*, R, .*\) was not given R"):
        rt.row_scatter_sum(table, timestep)
    with pytest.raises(TypeError, match="R is '9'; it must be a number of rows"):
        rt.row_scatter_sum(table, timestep, R="9")
    with pytest.raises(ValueError, match="check is 'later'; it may be 'now' or 'deferred'"):
        f(table, timestep, modality, check="later")
    with pytest.raises(TypeError, match="needs rows"):
        f.plan(timestep, modality)
    with pytest.raises(TypeError, match="takes 2 indices, not 1"):
        f.plan(timestep, rows=ROWS)
    with pytest.raises(AttributeError, match="has no kernel 'adaln'; it has adaln_row_gather"):
        rt.adaln  # noqa: B018
    assert all_same_bytes(
        f(modality=modality, table=table, timestep=timestep), gathered(table, timestep, modality)
    )


MISUSES: list[tuple[Callable[[Any, Any, Any], object], type[Exception], str]] = [
    (lambda t, a, b: f.plan(a, b, rows=3 * 2**70), ValueError, "rows is 3541774862152233910272; the limit is"),
    (lambda t, a, b: f.plan(a, b, rows=0), ValueError, "rows is 0; it must be at least 1"),
    (lambda t, a, b: f.plan(a, b, rows=9.0), TypeError, "rows is 9.0; it must be a number of rows"),
    (lambda t, a, b: f.plan(a, b, rows="9"), TypeError, "rows is '9'; it must be a number of rows"),
    (lambda t, a, b: f.plan(a, b, rows=torch.tensor(9)), TypeError, r"rows is tensor\(9\); it must be"),
    (lambda t, a, b: f.plan(a, b, rows=9, expression="a"), TypeError, "expression is 'a'; it must be the number of a row"),
    (lambda t, a, b: f.plan(a, b, rows=9, expression=2**70), ValueError, "there is no number 1180591620717411303424"),
    (lambda t, a, b: rt.row_scatter_sum(t[:4], a, R=2**70), ValueError, "R is 1180591620717411303424; the limit is"),
    (lambda t, a, b: f.plan(a, b, rows=9).repeat(2**63), ValueError, "9223372036854775808 sequences of 4 positions"),
    (lambda t, a, b: f.plan(a, b, rows=9).repeat(0), ValueError, "0 sequences; it must have at least 1"),
    (lambda t, a, b: f.plan(a, b, rows=9).repeat("2"), TypeError, "'2'; it must be a number of sequences"),
    (lambda t, a, b: f(t, a, b, plan=5), TypeError, r"plan is an int; adaln_row_gather\.plan"),
    (lambda t, a, b: f(t, a, b, plan=rn.adaln_row_gather.plan(a.numpy(), b.numpy(), rows=9)), TypeError, r"plan is a RowPlan of rowloom\.numpy; adaln_row_gather\.plan\(…\) makes a RowPlan of rowloom\.torch"),
    (lambda t, a, b: f.plan(a, b, R=9), TypeError, r"^adaln_row_gather\.plan\(timestep, modality, \*, rows, expression=0\) has no argument 'R'; the row count is rows=$"),
    (lambda t, a, b: f.plan(a, b, row=9), TypeError, r"expression=0\) has no argument 'row'$"),
    (lambda t, a, b: f.plan(a, timestep=a, rows=9), TypeError, r"expression=0\) was given 'timestep' twice"),
    (lambda t, a, b: f.plan(modality=b, rows=9), TypeError, r"expression=0\) takes 2 indices, not 1"),
    (lambda t, a, b: f.plan(a, timestep=a, modality=b, rows=9), TypeError, r"expression=0\) was given 'timestep' twice"),
    (lambda t, a, b: f.with_order(acumulate="float64"), TypeError, r"^adaln_row_gather\.with_order\(\*, block=256, accumulate='float32'\) has no argument 'acumulate'$"),
    (lambda t, a, b: f.backward(f(t, a, b), t, a, b, want="table"), TypeError, r"^adaln_row_gather\.backward\(cotangents, table, timestep, modality, \*, plan=None, wants=None, gradient_dtype=None\) has no argument 'want'$"),
    (lambda t, a, b: rt.row_scatter_sum.backward(None, t[:4], a), TypeError, r"row_scatter_sum\.backward\(cotangents, rows, row, \*, R=None, .*\) was not given R"),
    (lambda t, a, b: rt.gather_chunks(t, a, b), TypeError, r"^gather_chunks takes a sequence of 6 tables, not a tensor; adaln_row_gather takes the whole one"),
    (lambda t, a, b: rt.gather_chunks(5, a, b), TypeError, r"^gather_chunks takes a sequence of 6 tables, not an int"),
    # In each other's place: what is said is of what stands wrong.
    (lambda t, a, b: f(a, t, b), TypeError, "^table holds i64, but must hold f32, f16 or bf16$"),
    (lambda t, a, b: f(t, t, b), TypeError, "^timestep holds f32, but must hold u8, i32 or i64$"),
    (lambda t, a, b: f(t, a.view(2, 2), a[:3]), ValueError, r"^modality has shape \(3,\), but must have \(2, 2\), the positions of timestep, or \(2,\) for an index that all sequences share$"),
    (lambda t, a, b: rt.row_scatter_sum(t[:4], a.view(2, 2), R=9), ValueError, r"^rows has shape \(4, 48\), but must have \(2, 2, H\): row has positions \(2, 2\)$"),
    (lambda t, a, b: f(t.flatten(), a, b), ValueError, r"^table has 1 axis, but must have 2: \(rows, 6·H\)$"),
    (lambda t, a, b: f(t[None], a, b), ValueError, r"^table has 3 axes, but must have 2: a table is \(rows, columns\), and has no batch$"),
    (lambda t, a, b: rt.register(_native).nope, AttributeError, r"^rowloom\._native has no kernel 'nope'; it has adaln_row_gather, "),
    (lambda t, a, b: f(t, a, b, plan="plan"), TypeError, "plan is a str"),
    (lambda t, a, b: f.backward([x.numpy() for x in f(t, a, b)], t, a, b), TypeError, r"cotangents\[0\] is an ndarray"),
    (lambda t, a, b: f.backward([None] * 5 + [1.0], t, a, b), TypeError, r"cotangents\[5\] is a float"),
    (lambda t, a, b: rt.row_gather.backward(5, t, a), TypeError, r"cotangents\[0\] is an int"),
    (lambda t, a, b: f.backward(f(t, a, b), t, a, b, wants="modality"), ValueError, "no gradient of 'modality'; it has those of table"),
    (lambda t, a, b: f(t, a, b, gradient_dtype="float32"), TypeError, "gradient_dtype is 'float32'; it must be a type"),
    (lambda t, a, b: f(t, a, b, gradient_dtype=torch.int32), ValueError, "gradient_dtype is torch.int32; it may be"),
    (lambda t, a, b: f.backward(f(t, a, b), t, a, b, gradient_dtype=torch.float16), ValueError, "gradient_dtype is torch.float16"),
    (lambda t, a, b: f.backward(f(t, a, b), t, a, b, wants=(), gradient_dtype="float32"), TypeError, "gradient_dtype is 'float32'"),
    (lambda t, a, b: f(t.to("meta"), a.to("meta"), b.to("meta"), check="later"), ValueError, "check is 'later'"),
    (lambda t, a, b: rt.auto_plans("off"), TypeError, "auto_plans takes True or False, not 'off'"),
]  # fmt: skip


@pytest.mark.parametrize(("run", "kind", "sentence"), MISUSES, ids=[sentence for _, _, sentence in MISUSES])
def test_misuses(run: Callable[[Any, Any, Any], object], kind: type[Exception], sentence: str) -> None:
    table, timestep, modality = packed(4, 8)
    with pytest.raises(kind, match=sentence) as caught:
        run(table, timestep, modality)
    assert type(caught.value) is kind


def test_one_name_is_one_gradient(device: str) -> None:
    table, timestep, modality = packed(64, 8, device)
    cotangents = [normal((64, 8), device)] * 6
    expected = f.backward(cotangents, table, timestep, modality)
    assert all_same_bytes(f.backward(cotangents, table, timestep, modality, wants="table"), expected)


def test_a_summing_kernel_does_not_defer_without_a_plan(device: str) -> None:
    rows, row = normal((4, 8), device), packed(4, 8, device)[1]
    with pytest.raises((ValueError, RuntimeError), match="row_scatter_sum"):
        rt.row_scatter_sum(rows, row, R=3, check="deferred")
    rt.row_scatter_sum(rows, row, R=3)
    rt.row_scatter_sum(rows, row, R=3, check="deferred")


def test_a_backward_checks_what_a_forward_checks(device: str) -> None:
    table, timestep, modality = packed(64, 8, device)
    cotangents = [normal((64, 8), device)] * 6
    timestep[5] = 3
    for enabled in (True, False):
        with rt.auto_plans(enabled), pytest.raises(IndexError, match=r"timestep\[5\] is 3"):
            f.backward(cotangents, table, timestep, modality)


def test_mixed_devices_are_refused(cuda: str) -> None:
    table, timestep, modality = packed(4, 8, cuda)
    with pytest.raises(ValueError, match="timestep"):
        f(table, timestep.cpu(), modality)
    with pytest.raises(ValueError):
        f(table.cpu(), timestep, modality)


def test_names_of_arguments_reach_a_plan_and_a_gradient(device: str) -> None:
    table, timestep, modality = packed(64, 8, device)
    for plan in (f.plan(modality=modality, timestep=timestep, rows=ROWS), f.plan(timestep, modality=modality, rows=ROWS)):
        assert all_same_bytes(f(table, timestep, modality, plan=plan), gathered(table, timestep, modality))
    assert f.with_order(accumulate="f64") is f.with_order(accumulate="float64")
    assert f.with_order(accumulate="f32") is f
    rows, cotangent = normal((64, 8), device), normal((ROWS, 8), device)
    expected = rt.row_scatter_sum.backward(cotangent, rows, timestep, R=ROWS)
    assert all_same_bytes(rt.row_scatter_sum.backward(cotangent, rows, timestep), expected)
    assert all_same_bytes(rt.row_scatter_sum.backward(iter([cotangent]), row=timestep, rows=rows), expected)


def test_what_is_listed_is_what_is_public() -> None:
    for module in (rt, rn):
        assert set(dir(module)) == set(module.__all__)
        assert all([hasattr(module, name) for name in module.__all__])
    assert {"adaln_row_gather", "RowPlan", "auto_plans", "synchronize"} <= set(dir(rt))


def test_a_namespace_of_functions_is_copied() -> None:
    for functions in (rt.register(_native), rn.register(_native)):
        for copied in (copy.copy(functions), copy.deepcopy(functions), pickle.loads(pickle.dumps(functions))):
            assert vars(copied) == vars(functions)
            with pytest.raises(AttributeError, match="has no kernel 'nope'; it has adaln_row_gather"):
                copied.nope  # noqa: B018


def test_modules_of_kernels_are_registered_once() -> None:
    functions = rt.register(_native)
    assert functions.adaln_row_gather is rt.adaln_row_gather
    assert sorted(vars(functions)) == sorted(kernel.name for kernel in _native.kernels())
    assert "adaln_row_gather" in dir(rt)
