"""Nothing is written for one kernel: a module whose kernel has several outputs and row expressions.

The module stands in for a native one, in PyTorch: what is tested is what rowloom.torch makes of any
declaration. Values are small integers, so that sums are exact in every order.
"""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_cases import all_same_bytes

import rowloom.torch as rt
from rowloom import _native, numpy, signature


def extent(count: str) -> SimpleNamespace:
    return SimpleNamespace(count=count, numerator=1, denominator=1)


def declared(name: str, kind: str, dtype: str, rows: str | None = None, chunks: int = 1) -> SimpleNamespace:
    return SimpleNamespace(
        name=name, kind=kind, dtype=dtype, chunks=chunks, rows=None if rows is None else extent(rows), pad=None,
        differentiable=kind != "index",
    )  # fmt: skip


class Mix:
    """`pair = a[i]; y = b[j] + x; total = segment_sum(x, k)`, where no input tells how many rows `total` has."""

    name = "mix"
    signature = "fn mix(a, b, x, i, j, k) -> ([Rows<T>; 2], Rows<T>, Table<T, N>)"
    docs = "Two gathers and a sum."
    inputs = (
        declared("a", "table", "T", "R", chunks=2),
        declared("b", "table", "T", "Q"),
        declared("x", "rows", "T"),
        declared("i", "index", "I", "R"),
        declared("j", "index", "I", "Q"),
        declared("k", "index", "I", "N"),
    )
    outputs = (
        SimpleNamespace(name="pair", kind="rows", dtype="T", tensors=2, chunks=1, rows=None),
        SimpleNamespace(name="y", kind="rows", dtype="T", tensors=1, chunks=1, rows=None),
        SimpleNamespace(name="total", kind="table", dtype="T", tensors=1, chunks=1, rows=extent("N")),
    )
    counts = ("R", "Q", "N")
    open_counts = ("N",)
    row_expressions = (("i", (3,), extent("R")), ("j", (4,), extent("Q")), ("k", (5,), extent("N")))
    sums = True
    block = 256
    accumulate = "float32"

    def with_order(self, **_: object) -> "Mix":
        return self

    def recent(self, watched: object) -> Any:
        """Nothing is remembered on the CPU."""
        return SimpleNamespace(
            hits=0, generation=0, call=lambda arguments, plan: None, forget=lambda state=None: None, was_used=lambda state: False
        )

    def reads(self, wanted: Sequence[bool]) -> tuple[bool, ...]:
        return (False, False, False, wanted[0], wanted[1], wanted[2])

    def plan(self, _: int, expression: int, indices: Sequence[Tensor], counts: Mapping[str, int], state: Tensor) -> Any:
        rows = counts[("R", "Q", "N")[expression]]
        (index,) = indices
        if not bool(((index >= 0) & (index < rows)).all()):
            raise IndexError(f"expression {expression}")
        state[: len(index)] = index
        return (len(index), rows, self.block, 0, 0, 0)

    def forward(
        self, _: int, inputs: Sequence[Tensor], outputs: Sequence[Tensor], plans: Any, check: str, counts: Mapping[str, int],
        allocate: object,
    ) -> None:  # fmt: skip
        a, b, x, *_indices = inputs
        assert check in ("now", "deferred")
        i, j, k = (state[: sizes[0]].long() for state, sizes in plans)
        assert counts.keys() == {"N"}
        results = [*a[i].chunk(2, dim=1), b[j] + x, torch.zeros(counts["N"], x.shape[1]).index_add_(0, k, x)]
        targets = [*outputs[0], *outputs[1:]] if len(outputs) == 3 else list(outputs)
        for target, result in zip(targets, results, strict=True):
            target.copy_(result)

    def backward(
        self, _: int, inputs: Sequence[Tensor | None], cotangents: Sequence[Tensor], gradients: Sequence[Tensor | None],
        plans: Any, allocate: object,
    ) -> None:  # fmt: skip
        assert list(inputs[:3]) == [None] * 3, "they are not read"
        i, j, k = (state[: sizes[0]].long() for state, sizes in plans)
        d_first, d_second, d_y, d_total = cotangents
        d_a, d_b, d_x, *none = gradients
        assert none == [None] * 3
        if d_a is not None:
            d_a.zero_().index_add_(0, i, torch.cat([d_first, d_second], dim=1).to(d_a.dtype))
        if d_b is not None:
            d_b.zero_().index_add_(0, j, d_y.to(d_b.dtype))
        if d_x is not None:
            d_x.copy_(d_y + d_total[k])


@pytest.fixture(scope="module")
def mix() -> Any:
    module: Any = SimpleNamespace(
        __name__="kinds_of_kernels._native", __version__=_native.__version__, kernels=lambda: [Mix()],
        synchronize=lambda *_: None,
    )  # fmt: skip
    functions = rt.register(module)
    assert rt.register(module) is functions
    return functions.mix


def integers(shape: Sequence[int], seed: int, low: int = -8, high: int = 8) -> Tensor:
    return torch.randint(low, high, tuple(shape), generator=torch.Generator().manual_seed(seed))


def arguments() -> list[Tensor]:
    a, b, x = integers((5, 12), 0).float(), integers((7, 6), 1).float(), integers((40, 6), 2).float()
    return [a, b, x, integers((40,), 3, 0, 5), integers((40,), 4, 0, 7), integers((40,), 5, 0, 9)]


def expected(a: Tensor, b: Tensor, x: Tensor, i: Tensor, j: Tensor, k: Tensor) -> list[Tensor]:
    return [*a[i].chunk(2, dim=1), b[j] + x, torch.zeros(9, 6).index_add(0, k, x)]


def outcome(run: Any, wanted: Sequence[int], used: Sequence[int]) -> list[Tensor]:
    """Results, and gradients of the wanted inputs through the used results."""
    inputs = arguments()
    for at in wanted:
        inputs[at].requires_grad_()
    results = run(*inputs)
    cotangents = [integers(result.shape, 10 + at).float() for at, result in enumerate(results)]
    # All of ours need gradients, of the reference those that a wanted input reaches.
    used = [at for at in used if results[at].requires_grad]
    differentiated = [inputs[at] for at in wanted]
    gradients = torch.autograd.grad(
        [results[at] for at in used], differentiated, [cotangents[at] for at in used], allow_unused=True
    )
    zeros = map(torch.zeros_like, differentiated)
    return [*results, *[zero if x is None else x for zero, x in zip(zeros, gradients, strict=True)]]


def plans_of(mix: Any) -> list[rt.RowPlan]:
    rows = (5, 7, 9)
    return [mix.plan(index, rows=rows[at], expression=at) for at, index in enumerate(arguments()[3:])]


@pytest.mark.parametrize("wanted", [[0, 1, 2], [0], [2], [1, 2]])
@pytest.mark.parametrize("used", [[0, 1, 2, 3], [2], [3], [0, 3]])
@pytest.mark.parametrize("how", ["automatic", "planned", "compiled", "compiled and planned"])
def test_results_and_gradients(mix: Any, how: str, wanted: list[int], used: list[int]) -> None:
    reached = {0: {0, 1}, 1: {2}, 2: {2, 3}}
    if not any(reached[at] & set(used) for at in wanted):
        wanted = [0, 1, 2]
    plan = plans_of(mix) if "planned" in how else None

    def run(*inputs: Tensor) -> Any:
        return mix(*inputs, N=9, plan=plan)

    torch._dynamo.reset()
    called = torch.compile(run, backend="aot_eager", fullgraph=True) if "compiled" in how else run
    assert all_same_bytes(outcome(called, wanted, used), outcome(expected, wanted, used))


def test_every_op_passes_opcheck(mix: Any) -> None:
    inputs = arguments()
    for at in range(3):
        inputs[at].requires_grad_()
    plans = plans_of(mix)
    states, sizes = [plan.state for plan in plans], [size for plan in plans for size in plan.sizes]
    torch.library.opcheck(torch.ops.kinds_of_kernels.mix.default, inputs, {"counts": [9]})
    torch.library.opcheck(torch.ops.kinds_of_kernels.mix.planned, (*inputs, states, sizes), {"counts": [9]})


def test_batches_and_plans(mix: Any) -> None:
    a, b, x, i, j, k = arguments()
    results = mix(a, b, x.view(2, 20, 6), i.view(2, 20), j.view(2, 20), k.view(2, 20), N=9)
    flat = expected(a, b, x, i, j, k)
    assert all_same_bytes(results, [*[y.view(2, 20, 6) for y in flat[:3]], flat[3]])
    with pytest.raises(ValueError, match="mix takes 3 plans, one for each row expression, not 1"):
        mix(a, b, x, i, j, k, N=9, plan=plans_of(mix)[0])
    with pytest.raises(IndexError, match="expression 1"):
        mix(a, b, x, i, j + 7, k, N=9)


def test_a_batch_that_shares_its_indices_has_its_plans_repeated(mix: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def repeat(_: int, plan: Any, batch: int, state: Tensor) -> Any:
        (one, (positions, *others)) = plan
        state[: positions * batch] = one[:positions].repeat(batch)
        return (positions * batch, *others)

    monkeypatch.setattr("rowloom.torch.row_plan.repeat_plan", repeat)
    a, b, x, i, j, k = arguments()
    shared = mix(a, b, x.view(2, 20, 6), i[:20], j.view(2, 20), k[:20], N=9)
    flat = expected(a, b, x, i[:20].repeat(2), j, k[:20].repeat(2))
    assert all_same_bytes(shared, [*[y.view(2, 20, 6) for y in flat[:3]], flat[3]])
    three = torch.stack([x, 2 * x, 3 * x])
    flat = expected(a, b, three.view(120, 6), i.repeat(3), j.repeat(3), k.repeat(3))
    for plan in (None, plans_of(mix)):
        results = mix(a, b, three, i, j, k, N=9, plan=plan)
        assert all_same_bytes(results, [*[y.view(3, 40, 6) for y in flat[:3]], flat[3]])


def test_results_with_memory_of_their_own(mix: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowloom.torch.declared.ONE_BUFFER_BYTES", 1)
    mix.declared._layouts.clear()
    inputs = arguments()
    results = mix(*inputs, N=9)
    mix.declared._layouts.clear()
    assert all_same_bytes(results, expected(*inputs))
    assert len({x.untyped_storage().data_ptr() for x in results}) == 4


def test_rows_that_an_expression_cannot_have_are_refused() -> None:
    """Rows are three for each of a count, and no remainder is dropped."""
    kernel: Any = Mix()
    kernel.row_expressions = (("i", (3,), SimpleNamespace(count="R", numerator=3, denominator=1)), *Mix.row_expressions[1:])
    module: Any = SimpleNamespace(
        __name__="thirds", __version__=_native.__version__, kernels=lambda: [kernel], synchronize=lambda *_: None
    )
    thirds = rt.register(module).mix
    index = torch.zeros(4, dtype=torch.int64)
    with pytest.raises(ValueError, match="mix: i cannot have 10 rows, which is no multiple of 3"):
        thirds.plan(index, rows=10)
    with pytest.raises(ValueError, match="mix: i cannot have 10 rows, which is no multiple of 3"):
        numpy.RowFunction("thirds", kernel).plan(index.numpy(), rows=10)


def test_modules_that_cannot_be_registered() -> None:
    def module(**changes: Any) -> Any:
        facts = {"__name__": "others", "__version__": _native.__version__, "kernels": lambda: []}
        return SimpleNamespace(**{**facts, "synchronize": lambda *_: None, **changes})

    with pytest.raises(ImportError, match=r"others was built with rowloom 0\.0\.0"):
        rt.register(module(__version__="0.0.0"))
    rt.register(module())
    with pytest.raises(ValueError, match="the ops of others are those of others"):
        rt.register(module())
    kernel = Mix()
    kernel.inputs = (declared("plan", "rows", "T"), *Mix.inputs[1:])
    with pytest.raises(ValueError, match="mix: an input cannot be called plan, which is an option of every call"):
        rt.register(module(__name__="reserved", kernels=lambda: [kernel]))


@pytest.mark.parametrize("register", [rt.register, numpy.register])
@pytest.mark.parametrize(
    ("name", "why"),
    [
        *[(name, "is a keyword of Python") for name in ("lambda", "from", "with", "None")],
        *[(name, "is an option of every call") for name in signature.RESERVED],
    ],
)
def test_names_that_no_argument_can_have(register: Any, name: str, why: str) -> None:
    kernel: Any = Mix()
    kernel.inputs = (declared(name, "table", "T", "R", chunks=2), *Mix.inputs[1:])
    facts = {"__name__": f"called_{name}", "__version__": _native.__version__, "synchronize": lambda *_: None}
    with pytest.raises(ValueError, match=f"mix: an input cannot be called {name}, which {why}"):
        register(SimpleNamespace(**facts, kernels=lambda: [kernel]))
    kernel = Mix()
    kernel.open_counts = (name,)
    with pytest.raises(ValueError, match=f"mix: a row count cannot be called {name}, which {why}"):
        register(SimpleNamespace(**facts, kernels=lambda: [kernel]))


def test_a_backward_that_is_misused_says_its_own_signature(mix: Any) -> None:
    given = arguments()
    results = [x.detach() for x in mix(*given, N=9)]
    said = r"mix\.backward\(cotangents, a, b, x, i, j, k, \*, N=None, plan=None, wants=None, gradient_dtype=None\)"
    with pytest.raises(TypeError, match=said + " was not given N"):
        mix.backward([*results[:3], None], *given)
    with pytest.raises(TypeError, match=said + " has no argument 'M'"):
        mix.backward(results, *given, M=9)
    with pytest.raises(TypeError, match=r"mix\.backward takes 4 cotangents, not 3"):
        mix.backward(results[:3], *given, N=9)


def test_plans_take_their_indices_by_name(mix: Any) -> None:
    i, j = arguments()[3:5]
    for function, one in ((mix, j), (numpy.RowFunction("kinds", Mix()), j.numpy())):  # type: ignore[arg-type]
        assert function.plan(j=one, rows=7, expression=1).sizes == function.plan(one, rows=7, expression=1).sizes
        with pytest.raises(TypeError, match=r"mix\.plan\(j, \*, rows, expression=0\) has no argument 'i'"):
            function.plan(i=i, rows=7, expression=1)
