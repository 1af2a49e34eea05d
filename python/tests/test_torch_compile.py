"""Ops: what compilers and tracers see, and that their code gives the bytes of eager calls."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch_cases import ROWS, all_same_bytes, gathered, normal, packed, same_bytes

import rowloom.torch as rt

f = rt.adaln_row_gather
BACKENDS = ["aot_eager", "inductor"]


@pytest.fixture(autouse=True)
def fresh_compiler() -> None:
    torch._dynamo.reset()


def ops_of(device: str) -> dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]]:
    """Every op of every kernel, with arguments."""
    found: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {}
    for function in (rt.adaln_row_gather, rt.row_gather, rt.row_scatter_sum, f.with_order(accumulate="float64")):
        op, name = function._op, function._op.unplanned.__name__
        table, timestep, modality = packed(40, 6, device)
        if function.__name__ == "adaln_row_gather":
            tensors: tuple[Tensor, ...] = (table, timestep, modality)
            counts: list[int] = []
            cotangents, all_counts = [normal((40, 6), device) for _ in range(6)], [ROWS]
        elif function.__name__ == "row_gather":
            tensors, counts = (table, timestep), []
            cotangents, all_counts = [normal((40, 36), device)], [ROWS]
        else:
            tensors, counts = (normal((40, 6), device), timestep), [ROWS]
            cotangents, all_counts = [normal((ROWS, 6), device)], [ROWS]
        plan = function.plan(*tensors[1:], rows=ROWS)
        floats, *indices = tensors
        needing = (floats.clone().requires_grad_(), *indices)
        derivative = {
            "wanted": [True, *[False] * len(indices)], "shapes": list(floats.shape), "dtypes": "float32",
        }  # fmt: skip
        plans = ([plan.state], list(plan.sizes))
        found[name] = (op.unplanned, needing, {"counts": counts})
        found[f"{name} planned"] = (op.planned, (*needing, *plans), {"counts": counts})
        found[f"{name} backward"] = (op.backward, (cotangents, None, *indices), {**derivative, "counts": all_counts})
        found[f"{name} backward planned"] = (op.backward_planned, (cotangents, None, *indices, *plans), derivative)
        differentiable = [x.clone().requires_grad_() for x in cotangents]
        found[f"{name} backward of what needs gradients"] = (
            op.backward_planned, (differentiable, None, *indices, *plans), derivative,
        )  # fmt: skip
    return found


def test_every_op_passes_opcheck(device: str) -> None:
    cases = ops_of(device)
    assert len(cases) == 20
    for name, (op, arguments, keywords) in cases.items():
        if name.endswith("needs gradients"):
            utilities: tuple[str, ...] = ("test_schema", "test_autograd_registration", "test_faketensor")
            torch.library.opcheck(op, arguments, keywords, test_utils=utilities)
        else:
            torch.library.opcheck(op, arguments, keywords)


def test_tags_say_what_a_graph_may_hold() -> None:
    tag = getattr(torch.Tag, "cudagraph_unsafe", None)
    if tag is None:
        pytest.skip("skipped: this torch has no tag cudagraph_unsafe")
    assert tag in f._op.unplanned.tags
    assert tag in f._op.backward.tags
    assert tag not in f._op.planned.tags
    assert tag not in f._op.backward_planned.tags


def scaled(table: Tensor, timestep: Tensor, modality: Tensor, plan: rt.RowPlan | None) -> tuple[Tensor, Tensor]:
    """What every compiler computes exactly."""
    shift, scale, *_, gate = f(table * 2, timestep, modality, plan=plan)
    return shift * 0.5, scale * gate.abs()


def outcome(
    run: Callable[..., tuple[Tensor, ...]], table: Tensor, timestep: Tensor, modality: Tensor, plan: rt.RowPlan | None
) -> list[Tensor]:
    mine = table.clone().requires_grad_()
    outputs = run(mine, timestep, modality, plan)
    cotangents = [normal(tuple(output.shape), "cpu", output.dtype, at).to(output.device) for at, output in enumerate(outputs)]
    return [*outputs, *torch.autograd.grad(outputs, mine, cotangents)]


@pytest.mark.parametrize("planned", [False, True])
@pytest.mark.parametrize("dynamic", [None, True, False])
@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_bytes_are_eager_bytes(device: str, backend: str, dynamic: bool | None, planned: bool) -> None:
    compiled = torch.compile(scaled, backend=backend, fullgraph=True, dynamic=dynamic)
    for seed, positions in enumerate((40, 300)):
        table, timestep, modality = packed(positions, 8, device, seed=seed)
        plan = f.plan(timestep, modality, rows=ROWS) if planned else None
        expected = outcome(scaled, table, timestep, modality, plan)
        assert all_same_bytes(outcome(compiled, table, timestep, modality, plan), expected)


@pytest.mark.parametrize("planned", [False, True])
def test_new_plans_are_not_new_code(device: str, planned: bool) -> None:
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(scaled, backend=counter, fullgraph=True)
    compiles = []
    lengths = [300, 311, 640, 900, 3000, 1700, 20_000, 513]
    for seed, positions in enumerate([*lengths, *[7 + length for length in lengths]]):
        table, timestep, modality = packed(positions, 8, device, seed=seed)
        plan = f.plan(timestep, modality, rows=ROWS) if planned else None
        assert all_same_bytes(compiled(table, timestep, modality, plan), scaled(table, timestep, modality, plan))
        compiles.append(counter.frame_count)
    # One with sizes as they came, then sizes become symbols; none and some partial sums are told apart once.
    assert compiles[-1] <= 4, compiles
    assert compiles[-1] == compiles[len(lengths) - 1], compiles


def test_a_plan_is_made_outside_of_compiled_code(device: str) -> None:
    seen: list[str] = []

    def backend(graph: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        seen.extend(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        return graph.forward

    def run(table: Tensor, row: Tensor) -> Tensor:
        moved = row + 0
        result: Tensor = rt.row_gather(table * 2, moved, plan=rt.row_gather.plan(moved, rows=ROWS))
        return result

    compiled = torch.compile(run, backend=backend)
    table, row, _ = packed(60, 8, device)
    for _ in range(3):
        assert same_bytes(compiled(table, row), (table * 2)[row])
        row = (row + 1) % 3
    assert sorted(seen) == ["<built-in function add>", "<built-in function mul>", "rowloom.row_gather.planned"]
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="torch.compiler.disable"):
        torch.compile(run, backend=backend, fullgraph=True)(table, row)


class Block(nn.Module):
    """A modulated layer."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.table = nn.Parameter(normal((ROWS, 6 * columns), seed=5))

    def forward(self, x: Tensor, timestep: Tensor, modality: Tensor, plan: rt.RowPlan | None = None) -> Tensor:
        shift, scale, gate, *_ = f(self.table, timestep, modality, plan=plan)
        return x + gate * (x * scale + shift)


@pytest.mark.parametrize("planned", [False, True])
def test_a_compiled_model_trains_on_the_same_bytes(device: str, planned: bool) -> None:
    block = Block(16).to(device)
    compiled = torch.compile(block, backend="aot_eager", fullgraph=True)
    _, timestep, modality = packed(700, 16, device)
    plan = f.plan(timestep, modality, rows=ROWS) if planned else None
    gradients = []
    for run in (block, compiled):
        block.table.grad = None
        run(normal((700, 16), device), timestep, modality, plan).backward(normal((700, 16), device, seed=7))
        gradients.append(block.table.grad)
    assert gradients[0] is not None
    assert gradients[1] is not None
    assert same_bytes(gradients[1], gradients[0])


def test_compiled_batches_chunks_and_backward(device: str) -> None:
    table, timestep, modality = packed(60, 8, device)
    batched, shared = timestep.view(3, 20), modality[:20]
    cotangents = [normal((60, 8), device, seed=seed) for seed in range(6)]

    def batch(table: Tensor) -> Any:
        return f(table, batched, shared)

    def chunks(table: Tensor) -> Any:
        return rt.gather_chunks(table.chunk(6, dim=1), timestep, modality)

    def gradient(table: Tensor) -> Any:
        return f.backward(cotangents, table, timestep, modality)

    for run in (batch, chunks, gradient):
        compiled = torch.compile(run, backend="aot_eager", fullgraph=True)
        assert all_same_bytes(compiled(table), run(table))


def test_compiled_sums(device: str) -> None:
    def run(rows: Tensor, row: Tensor) -> Tensor:
        result: Tensor = rt.row_scatter_sum(rows * 2, row, R=ROWS)
        return result * 2

    compiled = torch.compile(run, backend="aot_eager", fullgraph=True)
    gradients = []
    for each in (run, compiled):
        rows = normal((60, 8), device).requires_grad_()
        result = each(rows, packed(60, 8, device)[1])
        result.backward(normal((ROWS, 8), device, seed=2))
        gradients.append([result, rows.grad])
    assert all_same_bytes(gradients[1], gradients[0])  # type: ignore[arg-type]


def test_compiled_code_says_the_same_of_a_bad_index(device: str) -> None:
    table, timestep, modality = packed(60, 8, device)
    modality[9] = 3
    compiled = torch.compile(scaled, backend="aot_eager", fullgraph=True)
    with pytest.raises(IndexError, match=r"modality\[9\] is 3"):
        compiled(table, timestep, modality, None)
    modality[9] = 2
    assert all_same_bytes(compiled(table, timestep, modality, None), scaled(table, timestep, modality, None))


def test_memory_that_compiled_code_reuses_is_no_stale_plan(device: str) -> None:
    """Indices that compiled code computes may all lie in one buffer of one version."""

    def run(table: Tensor, timestep: Tensor, modality: Tensor) -> list[Tensor]:
        results = []
        for at in range(4):
            results.extend(f(table, (timestep + at) % 3, (modality * (at + 1)) % 3))
        return results

    compiled = torch.compile(run, backend="inductor", fullgraph=True)
    table, timestep, modality = packed(400, 8, device)
    expected = [
        output for at in range(4) for output in gathered(table, (timestep + at) % 3, (modality * (at + 1)) % 3)
    ]
    for _ in range(3):
        assert all_same_bytes(compiled(table, timestep, modality), expected)


def test_fake_tensors_and_tracers_see_an_op(device: str) -> None:
    table, timestep, modality = packed(60, 8, device)
    with FakeTensorMode() as mode:
        fake = [mode.from_tensor(x) for x in (table, timestep, modality)]
        outputs = f(*fake)
        assert [tuple(output.shape) for output in outputs] == [(60, 8)] * 6
        assert all(output.device.type == device for output in outputs)
    graph = make_fx(lambda *inputs: f(*inputs)[0])(table, timestep, modality)
    assert "rowloom.adaln_row_gather" in graph.code
    exported = torch.export.export(Block(8).to(device), (normal((60, 8), device), timestep, modality))
    assert "rowloom.adaln_row_gather" in str(exported.graph)
    meta = f(table.to("meta"), timestep.to("meta"), modality.to("meta"))
    assert [(tuple(output.shape), output.device.type) for output in meta] == [((60, 8), "meta")] * 6


def test_subclasses_see_an_op(device: str) -> None:
    class Seen(torch.Tensor):
        calls: list[str] = []  # noqa: RUF012

        @classmethod
        def __torch_function__(cls, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
            cls.calls.append(str(function))
            return super().__torch_function__(function, types, arguments, keywords or {})

    table, timestep, modality = packed(60, 8, device)
    outputs = f(table.as_subclass(Seen), timestep, modality)
    assert any("adaln_row_gather" in call for call in Seen.calls)
    assert all_same_bytes([output.as_subclass(Tensor) for output in outputs], gathered(table, timestep, modality))
