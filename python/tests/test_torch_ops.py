"""What ops do that functions do for plain tensors: edits, types, layouts, streams, transforms, copies."""

import copy
import io
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch_cases import ROWS, all_same_bytes, gathered, normal, packed, same_bytes

import rowloom.torch as rt

f = rt.adaln_row_gather


class Watching(TorchDispatchMode):
    """Sees ops, and so makes calls go through them."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, op: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        self.seen.append(str(op))
        return op(*arguments, **(keywords or {}))


# Plans.


def test_a_plan_cannot_be_given_another_state() -> None:
    plan: Any = f.plan(*packed(64, 8)[1:], rows=ROWS)
    for name in ("state", "sizes"):
        with pytest.raises(AttributeError):
            setattr(plan, name, getattr(plan, name))


@pytest.mark.parametrize("where", ["call", "backward", "batch", "repeat", "known repeat", "repeat of one", "copy", "op", "op's backward"])
def test_an_edited_plan_is_refused_everywhere(device: str, where: str) -> None:
    table, timestep, modality = packed(64, 8, device)
    plan = f.plan(timestep, modality, rows=ROWS)
    plan.repeat(2)
    cotangents = [normal((64, 8), device)] * 6
    batch = (timestep.view(1, 64).expand(3, 64), modality)
    plan.state.zero_()
    with pytest.raises(ValueError, match="the state of a plan was edited"):
        match where:
            case "call":
                f(table, timestep, modality, plan=plan)
            case "backward":
                f.backward(cotangents, table, timestep, modality, plan=plan)
            case "batch":
                f(table, *batch, plan=plan)
            case "repeat":
                plan.repeat(3)
            case "known repeat":
                plan.repeat(2)
            case "repeat of one":
                plan.repeat(1)
            case "copy":
                copy.deepcopy(plan)
            case "op":
                with Watching():
                    f(table, timestep, modality, plan=plan)
            case _:
                with Watching():
                    f.backward(cotangents, table, timestep, modality, plan=plan)


def test_a_batch_shares_a_plan_through_ops(device: str) -> None:
    rows, row = normal((3, 64, 8), device), packed(64, 8, device)[1]
    plan = rt.row_scatter_sum.plan(row, rows=ROWS)
    expected = rt.row_scatter_sum(rows, row, R=ROWS, plan=plan)
    with Watching() as mode:
        found = rt.row_scatter_sum(rows, row, R=ROWS, plan=plan)
    assert "rowloom.row_scatter_sum.planned" in mode.seen
    assert same_bytes(found, expected)


def test_a_copy_of_a_plan_is_waited_for(cuda: str) -> None:
    table, timestep, modality = packed(50_000, 8, cuda)
    expected = gathered(table, timestep, modality)
    plan = f.plan(timestep, modality, rows=ROWS)
    side, other = torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    for _ in range(20):
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)
            copied = copy.deepcopy(plan)
        with torch.cuda.stream(other):
            found = f(table, timestep, modality, plan=copied)
        other.synchronize()
        assert all_same_bytes(found, expected)
        del copied


def test_ops_note_the_use_of_every_state(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table, timestep, modality = packed(64, 8, device)
    plan = f.plan(timestep, modality, rows=ROWS)
    noted: list[int] = []
    monkeypatch.setattr("rowloom.torch.ops.note_use", lambda state: noted.append(state.data_ptr()))
    f._op.planned(table, timestep, modality, [plan.state], list(plan.sizes))
    assert noted == [plan.state.data_ptr()]
    keywords = {"wanted": [True, False, False], "shapes": list(table.shape), "dtypes": "float32"}
    cotangents = [normal((64, 8), device)] * 6
    f._op.backward_planned(cotangents, None, None, None, [plan.state], list(plan.sizes), **keywords)
    assert noted == [plan.state.data_ptr()] * 2


def test_a_plan_used_by_an_op_on_another_stream_is_not_freed_under_it(cuda: str) -> None:
    table, timestep, modality = packed(50_000, 256, cuda)
    expected = gathered(table, timestep, modality)
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    for _ in range(30):
        plan = f.plan(timestep, modality, rows=ROWS)
        size = plan.state.numel()
        with torch.cuda.stream(side):
            torch.cuda._sleep(2_000_000)
            outputs = f._op.planned(table, timestep, modality, [plan.state], list(plan.sizes))
        del plan
        taken = [torch.full((size,), -1, dtype=torch.int32, device=cuda) for _ in range(4)]
        side.synchronize()
        assert all_same_bytes(outputs, expected)
        del taken


# Gradients.


@pytest.mark.parametrize("planned", [False, True])
def test_one_dimension_has_a_gradient_of_one(device: str, planned: bool) -> None:
    column, row = normal((ROWS,), device), packed(64, 8, device)[1]
    rows = normal((64,), device)
    gather = rt.row_gather.plan(row, rows=ROWS) if planned else None
    scatter = rt.row_scatter_sum.plan(row, rows=ROWS) if planned else None

    def run(column: Tensor, rows: Tensor) -> list[Tensor]:
        column, rows = column.detach().requires_grad_(), rows.detach().requires_grad_()
        results = [rt.row_gather(column, row, plan=gather), rt.row_scatter_sum(rows, row, R=ROWS, plan=scatter)]
        cotangents = [normal(tuple(x.shape), device, seed=9) for x in results]
        return [*results, *torch.autograd.grad(results, [column, rows], cotangents)]

    expected = run(column, rows)
    assert expected[2].shape == column.shape
    with Watching() as mode:
        found = run(column, rows)
    assert any("row_gather_backward" in op for op in mode.seen)
    assert all_same_bytes(found, expected)

    torch._dynamo.reset()
    compiled = torch.compile(lambda x, y: (rt.row_gather(x, row, plan=gather), rt.row_scatter_sum(y, row, R=ROWS)), backend="aot_eager")
    column.requires_grad_()
    rows.requires_grad_()
    results = compiled(column, rows)
    gradients = torch.autograd.grad(results, [column, rows], [normal(tuple(x.shape), device, seed=9) for x in results])
    assert all_same_bytes([*results, *gradients], expected)


@pytest.mark.parametrize("how", ["mode", "compiled"])
def test_beside_plans_indices_may_be_edited_before_the_backward(device: str, how: str) -> None:
    table, timestep, modality = packed(64, 8, device)
    table.requires_grad_()
    plan = f.plan(timestep, modality, rows=ROWS)
    cotangents = [normal((64, 8), device, seed=seed) for seed in range(6)]
    (expected,) = f.backward(cotangents, table, timestep, modality)
    torch._dynamo.reset()
    run: Any = f
    if how == "compiled":
        run = torch.compile(lambda *inputs, plan: f(*inputs, plan=plan), backend="aot_eager", fullgraph=True)
        outputs = run(table, timestep, modality, plan=plan)
    else:
        with Watching():
            outputs = run(table, timestep, modality, plan=plan)
    timestep.zero_()
    modality.fill_(2)
    (found,) = torch.autograd.grad(outputs, table, cotangents)
    assert same_bytes(found, expected)


def test_gradients_that_would_be_rounded_are_refused_through_ops(device: str) -> None:
    table, timestep, modality = packed(3000, 8, device, torch.bfloat16)
    cotangents = [normal((3000, 8), device, torch.bfloat16)] * 6
    (exact,) = f.backward(cotangents, table, timestep, modality, gradient_dtype=torch.float32)
    table.requires_grad_()
    with Watching(), pytest.raises(ValueError, match="would be rounded to torch.bfloat16 on its way to table"):
        f(table, timestep, modality, gradient_dtype=torch.float32)
    with torch.no_grad(), Watching():
        f(table, timestep, modality, gradient_dtype=torch.float32)
    if not hasattr(table, "grad_dtype"):
        pytest.skip("skipped: this torch has no Tensor.grad_dtype")
    table.grad_dtype = torch.float32
    with Watching():
        outputs = f(table, timestep, modality, gradient_dtype=torch.float32)
    torch.autograd.backward(outputs, cotangents)
    assert table.grad is not None
    assert same_bytes(table.grad, exact)


def test_compiled_code_refuses_gradients_that_it_would_round(device: str) -> None:
    table, timestep, modality = packed(64, 8, device, torch.bfloat16)
    if hasattr(table, "grad_dtype"):
        table.requires_grad_()
        # Compiled code rounds whatever the leaf says.
        table.grad_dtype = torch.float32
    table.requires_grad_()
    torch._dynamo.reset()

    def run(table: Tensor) -> Any:
        return f(table, timestep, modality, gradient_dtype=torch.float32)

    compiled = torch.compile(run, backend="aot_eager", fullgraph=True)
    with pytest.raises(Exception, match="ValueError|would be rounded"):
        compiled(table)
    assert all_same_bytes(compiled(table.detach()), gathered(table.detach(), timestep, modality))


# Transforms.


@pytest.mark.parametrize("planned", [False, True])
def test_vmap_is_one_call_after_the_other(device: str, planned: bool) -> None:
    table, timestep, modality = packed(64, 8, device)
    tables = torch.stack([table, 2 * table, -table], dim=1)
    plan = f.plan(timestep, modality, rows=ROWS) if planned else None
    found = torch.func.vmap(lambda one: f(one, timestep, modality, plan=plan), in_dims=1)(tables)
    for at in range(3):
        assert all_same_bytes([x[at] for x in found], gathered(tables[:, at], timestep, modality))

    cotangents = torch.stack([normal((64, 8), device, seed=seed) for seed in range(18)]).view(3, 6, 64, 8)
    (gradients,) = torch.func.vmap(lambda many: f.backward(list(many), table, timestep, modality, plan=plan))(cotangents)
    for at in range(3):
        (expected,) = f.backward(list(cotangents[at]), table, timestep, modality)
        assert same_bytes(gradients[at], expected)

    tables = tables.detach().requires_grad_()
    outputs = torch.func.vmap(lambda one: f(one, timestep, modality, plan=plan), in_dims=1)(tables)
    (gradient,) = torch.autograd.grad(outputs, tables, [cotangents[:, at] for at in range(6)])
    for at in range(3):
        assert same_bytes(gradient[:, at].contiguous(), f.backward(list(cotangents[at]), table, timestep, modality)[0])


def test_vmap_of_one_result_and_of_vmap(device: str) -> None:
    row = packed(64, 8, device)[1]
    tables = normal((2, 3, ROWS, 8), device)
    plan = rt.row_gather.plan(row, rows=ROWS)
    found = torch.func.vmap(torch.func.vmap(lambda one: rt.row_gather(one, row, plan=plan)))(tables)
    assert same_bytes(found, tables[:, :, row])


# Copies.


class Model(nn.Module):
    def __init__(self, function: rt.RowFunction) -> None:
        super().__init__()
        self.table = nn.Parameter(normal((ROWS, 48)))
        self.gather = function

    def forward(self, timestep: Tensor, modality: Tensor) -> Any:
        return self.gather(self.table, timestep, modality)


@pytest.mark.parametrize("function", [f, f.with_order(accumulate="float64"), f.with_order(block=64)])
def test_a_model_that_holds_a_function_is_copied_and_saved(function: rt.RowFunction) -> None:
    model = Model(function)
    _, timestep, modality = packed(64, 8)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    for again in (copy.deepcopy(model), torch.load(file, weights_only=False)):
        assert again.gather is function
        assert all_same_bytes(again(timestep, modality), model(timestep, modality))


def test_a_function_of_a_module_that_is_not_registered() -> None:
    build, names = f.__reduce__()
    with pytest.raises(ImportError, match="adaln_row_gather is a kernel of elsewhere, which is not registered here"):
        build("elsewhere", *names[1:])
    assert pickle.loads(pickle.dumps(f)) is f
