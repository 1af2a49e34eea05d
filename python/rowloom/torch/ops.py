"""Kernels as `torch.library` ops, which compilers, modes and transforms can see.

A kernel K has four: `K` checks its indices or finds plans for them, `K.planned` goes through plans,
which are plain tensors and integers; `K_backward` and `K_backward.planned` are their derivatives. All
take flat tensors. Plans are arguments by position, since torch differentiates no op that has tensors
by keyword alone. An op trusts the states that it is given: that one was not edited is for the function to
see, before it calls an op, and compiled code does not see it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from rowloom.shapes import rows_of, sizes
from rowloom.torch import execute, private
from rowloom.torch.autograd import second_derivative
from rowloom.torch.declared import Declared, fixed_dtype
from rowloom.torch.eager import Call
from rowloom.torch.plans import setting
from rowloom.torch.row_plan import RowPlan, note_use
from rowloom.torch.vmap import one_by_one

SIZES = 6
"""Integers of a plan."""

_libraries: dict[str, torch.library.Library] = {}


class Op:
    """The ops of one kernel."""

    def __init__(self, namespace: str, name: str, declared: Declared) -> None:
        forward = getattr(getattr(torch.ops, namespace), name)
        backward = getattr(getattr(torch.ops, namespace), f"{name}_backward")
        self.unplanned = forward.default
        self.planned = forward.planned
        self.backward = backward.default
        self.backward_planned = backward.planned
        self.positional = tuple([output.kind == "rows" for output in declared.native.outputs for _ in range(output.tensors)])
        """Of each tensor of the results whether it has a row per position."""
        self.declared = declared

    def differentiate(
        self,
        cotangents: Sequence[Tensor],
        inputs: Sequence[Tensor | None],
        facts: Sequence[tuple[Any, torch.dtype]],
        wanted: Sequence[bool],
        plans: tuple[Sequence[Tensor], Sequence[Any]] | None,
        counts: Mapping[str, Any],
        gradient_dtype: torch.dtype | None,
    ) -> Sequence[Tensor]:
        """The wanted gradients, in order. `facts` are shape and type of each input, also of those not read."""
        native = self.declared.native
        shapes = [size for (shape, _), want in zip(facts, wanted, strict=True) if want for size in _two(shape)]
        dtypes = ",".join(
            [
                str(gradient_dtype if gradient_dtype is not None and kind == "table" else dtype).removeprefix("torch.")
                for kind, (_, dtype), want in zip(self.declared.kinds, facts, wanted, strict=True)
                if want
            ]
        )
        flags = list(wanted)
        if plans is not None:
            states, numbers = plans
            found = self.backward_planned(
                cotangents, *inputs, states, numbers, wanted=flags, shapes=shapes, dtypes=dtypes
            )
        else:
            known = sizes(native, [shape for shape, _ in facts], counts).counts
            all_counts = [known[name] for name in native.counts]
            found = self.backward(cotangents, *inputs, wanted=flags, shapes=shapes, dtypes=dtypes, counts=all_counts)
        given = [shape for (shape, _), want in zip(facts, wanted, strict=True) if want]
        return [x if len(shape) > 1 else x.reshape(shape) for x, shape in zip(found, given, strict=True)]


def _two(shape: Any) -> tuple[Any, Any]:
    """Rows and columns."""
    return (shape[0], shape[1]) if len(shape) > 1 else (shape[0], 1)


def _tags(names: Sequence[str]) -> tuple[torch.Tag, ...]:
    """Tags by name, those that this torch knows."""
    return tuple(getattr(torch.Tag, name) for name in names if hasattr(torch.Tag, name))


def define(namespace: str, name: str, declared: Declared) -> Op:
    """Registers the ops of a kernel as `torch.ops.<namespace>.<name>`.

    Torch keeps ops as long as the process lives. Where this package is imported anew they are those of before, which
    mean the same: an op is given nothing but tensors and numbers.
    """
    before = getattr(getattr(torch.ops, namespace), name, None)
    if before is not None:
        if not hasattr(before, "planned"):
            raise ValueError(f"torch.ops.{namespace}.{name} is there already, and is no kernel of rowloom's")
        return Op(namespace, name, declared)
    library = _libraries.get(namespace)
    if library is None:
        # A fragment, since a package that was imported before may have begun the namespace.
        library = _libraries[namespace] = torch.library.Library(namespace, "FRAGMENT")  # type: ignore[no-untyped-call]
    definition = _Definition(library, f"{namespace}::{name}", name, declared)
    definition.register()
    definition.op = Op(namespace, name, declared)
    return definition.op


class _Definition:
    """Schemas, implementations and derivatives of one kernel."""

    op: Op

    def __init__(self, library: torch.library.Library, qualified: str, name: str, declared: Declared) -> None:
        self.library = library
        self.qualified = qualified
        self.name = name
        self.declared = declared
        self.arity = len(declared.names)

    def register(self) -> None:
        tensors = ", ".join(f"Tensor {name}" for name in self.declared.names)
        optional = ", ".join(f"Tensor? {name}" for name in self.declared.names)
        one = ", ".join(["Tensor"] * self.declared.tensors)
        results = one if self.declared.tensors == 1 else f"({one})"
        counts = "SymInt[] counts=[]"
        last = "ScalarType? gradient_dtype=None"
        # An op sees tensors as the caller has them, so that it reads strided rows without a copy.
        usual = ["pt2_compliant_tag", "needs_exact_strides"]
        waits = [*usual, "cudagraph_unsafe"]
        self._op("", f'({tensors}, *, str check="now", {counts}, {last}) -> {results}', waits, self._forward, self._fake)
        self._op(
            ".planned", f"({tensors}, Tensor[] plans, SymInt[] sizes, *, {counts}, {last}) -> {results}",
            usual, self._forward_planned, self._fake_planned,
        )  # fmt: skip
        given = f"Tensor[] cotangents, {optional}"
        gradients = "bool[] wanted, SymInt[] shapes, str dtypes"
        self._op(
            "_backward", f"({given}, *, {gradients}, SymInt[] counts) -> Tensor[]", waits, self._backward, self._fake_backward,
        )  # fmt: skip
        self._op(
            "_backward.planned", f"({given}, Tensor[] plans, SymInt[] sizes, *, {gradients}) -> Tensor[]",
            usual, self._backward_planned, self._fake_backward,
        )  # fmt: skip
        for overload in ("", ".planned"):
            torch.library.register_autograd(
                self.qualified + overload, self._differentiate, setup_context=self._remember, lib=self.library
            )
            torch.library.register_autograd(
                f"{self.qualified}_backward{overload}", self._refuse, setup_context=_nothing, lib=self.library
            )
            for derivative in ("", "_backward"):
                qualified = self.qualified + derivative + overload
                torch.library.register_vmap(qualified, one_by_one(qualified), lib=self.library)

    def _op(
        self, suffix: str, schema: str, tags: Sequence[str], run: Callable[..., Any], fake: Callable[..., Any]
    ) -> None:
        self.library.define(self.name + suffix + schema, tags=_tags(tags))  # type: ignore[no-untyped-call]
        for device in ("CPU", "CUDA"):
            self.library.impl(self.name + suffix, run, device)  # type: ignore[no-untyped-call]
        torch.library.register_fake(self.qualified + suffix, fake, lib=self.library)

    # Forward.

    def _forward(self, *inputs: Tensor, check: str = "now", counts: Sequence[int] = (), gradient_dtype: Any = None) -> Any:
        del gradient_dtype
        return self._call(inputs, None, check, counts)

    def _forward_planned(
        self, *arguments: Any, counts: Sequence[int] = (), gradient_dtype: Any = None
    ) -> Any:
        del gradient_dtype
        return self._call(arguments[: self.arity], _plans(*arguments[self.arity :]), "now", counts)

    def _call(self, inputs: Sequence[Tensor], plans: Sequence[RowPlan] | None, check: str, counts: Sequence[int]) -> Any:
        # Compiled code reuses memory without a new version, so here plans are found again only where
        # what the indices hold is compared: on the CPU.
        cached = inputs[0].is_cpu
        call = Call(self.declared, inputs, self._counts(counts), plans, check, None, False, cached, batched=False)
        results = call.forward(apart=True)
        return results[0] if len(results) == 1 else tuple(results)

    def _counts(self, counts: Sequence[Any]) -> dict[str, Any]:
        names = self.declared.open_counts
        if len(counts) != len(names):
            expected = f"{len(names)} counts ({', '.join(names)})" if names else "no counts"
            raise ValueError(f"{self.qualified} takes {expected}, not {len(counts)}")
        return dict(zip(names, counts, strict=True))

    def _fake(self, *inputs: Tensor, check: str = "now", counts: Sequence[Any] = (), gradient_dtype: Any = None) -> Any:
        del check, gradient_dtype
        for name, x in zip(self.declared.names, inputs, strict=True):
            if x.device != inputs[0].device:
                first = f"{inputs[0].device}: {self.declared.names[0]} is there"
                raise ValueError(f"{name} is on {x.device}, but the call runs on {first}; move {name} to {inputs[0].device}")
        found = self.declared.tensor_shapes([x.shape for x in inputs], self._counts(counts))
        results = [
            inputs[like].new_empty(shape, dtype=dtype)
            for shape, (like, dtype) in zip(found, self.declared.tensor_origins(), strict=True)
        ]
        return results[0] if len(results) == 1 else tuple(results)

    def _fake_planned(self, *arguments: Any, counts: Sequence[Any] = (), gradient_dtype: Any = None) -> Any:
        return self._fake(*arguments[: self.arity], counts=counts, gradient_dtype=gradient_dtype)

    # Backward.

    def _backward(
        self, cotangents: Sequence[Tensor], *inputs: Tensor | None, wanted: Sequence[bool], shapes: Sequence[int],
        dtypes: str, counts: Sequence[int],
    ) -> list[Tensor]:  # fmt: skip
        native = self.declared.native
        known = dict(zip(native.counts, counts, strict=True))
        rows = tuple(rows_of(extent, known) for _, _, extent in native.row_expressions)
        indices: Any = inputs  # every index is there
        cached = cotangents[0].is_cpu and setting.enabled
        plans = execute.automatic_plans(self.declared, indices, indices, (), rows, known, True, cached)
        assert plans is not None, "plans that are missing are built"
        return self._gradients(cotangents, inputs, plans, wanted, shapes, dtypes)

    def _backward_planned(
        self, cotangents: Sequence[Tensor], *arguments: Any, wanted: Sequence[bool], shapes: Sequence[int], dtypes: str
    ) -> list[Tensor]:
        plans = _plans(*arguments[self.arity :])
        inputs = self._with_indices(cotangents[0], arguments[: self.arity], plans)
        return self._gradients(cotangents, inputs, plans, wanted, shapes, dtypes)

    def _with_indices(self, like: Tensor, inputs: Sequence[Tensor | None], plans: Sequence[RowPlan]) -> list[Tensor | None]:
        """Inputs with an index where there is none: beside plans a kernel asks for its shape alone."""
        found = list(inputs)
        for indices, plan in zip(self.declared.expressions, plans, strict=False):
            for at in indices:
                if found[at] is None:
                    dtype = fixed_dtype(self.declared.native.inputs[at].dtype) or torch.int64
                    found[at] = like.new_empty(1, dtype=dtype).expand(plan.positions)
        return found

    def _gradients(
        self, cotangents: Sequence[Tensor], inputs: Sequence[Tensor | None], plans: Sequence[RowPlan],
        wanted: Sequence[bool], shapes: Sequence[int], dtypes: str,
    ) -> list[Tensor]:  # fmt: skip
        ready = [execute.ready_cotangent(x) for x in cotangents]
        each = iter(_by_gradient(shapes, dtypes))
        gradients = [next(each) if want else None for want in wanted]
        found = execute.backward(self.declared, inputs, ready, gradients, plans)
        return [gradient for gradient in found if gradient is not None]

    def _fake_backward(
        self, cotangents: Sequence[Tensor], *_: Any, wanted: Any, shapes: Sequence[Any], dtypes: str, counts: Any = None
    ) -> list[Tensor]:
        del wanted, counts
        return [cotangents[0].new_empty(shape, dtype=dtype) for shape, dtype in _by_gradient(shapes, dtypes)]

    # Derivatives.

    def _remember(self, ctx: Any, inputs: Sequence[Any], output: Any, keyword_only_inputs: dict[str, Any]) -> None:
        ctx.set_materialize_grads(False)
        tensors, plans = inputs[: self.arity], inputs[self.arity :]
        outputs = (output,) if isinstance(output, Tensor) else output
        ctx.results = [(x.shape, x.dtype) for x in outputs]
        ctx.inputs = [(x.shape, x.dtype) for x in tensors]
        ctx.keywords = keyword_only_inputs
        ctx.sizes = plans[1] if plans else None
        wanted = self._wanted(ctx.needs_input_grad)
        # Beside plans no index is read, so edits of one are no fault.
        ctx.saved = [
            not plans if kind == "index" else reads
            for reads, kind in zip(self.declared.reads(wanted), self.declared.kinds, strict=True)
        ]
        states = plans[0] if plans else []
        ctx.save_for_backward(*[x for x, keep in zip(tensors, ctx.saved, strict=True) if keep], *states)

    def _wanted(self, needed: Sequence[Any]) -> tuple[bool, ...]:
        return tuple([bool(need) and able for need, able in zip(needed, self.declared.differentiable, strict=False)])

    def _differentiate(self, ctx: Any, *cotangents: Tensor | None) -> Any:
        saved = iter(ctx.saved_tensors)
        inputs = [next(saved) if keep else None for keep in ctx.saved]
        states = list(saved)
        others: tuple[Any, ...] = () if ctx.sizes is None else ([None] * len(states), None)
        wanted = self._wanted(ctx.needs_input_grad)
        given = [x for x in cotangents if x is not None]
        if not given or not any(wanted):
            return (*[None] * self.arity, *others)
        ready = [
            execute.zero_cotangent(given[0], shape, dtype) if x is None else x
            for x, (shape, dtype) in zip(cotangents, ctx.results, strict=True)
        ]
        plans = None if ctx.sizes is None else (states, ctx.sizes)
        counts = self._counts(ctx.keywords.get("counts", ()))
        found = iter(
            self.op.differentiate(ready, inputs, ctx.inputs, wanted, plans, counts, ctx.keywords.get("gradient_dtype"))
        )
        return (*[next(found) if want else None for want in wanted], *others)

    def _refuse(self, ctx: Any, *cotangents: Any) -> Any:
        raise RuntimeError(second_derivative(self.declared.name))


def _nothing(ctx: Any, inputs: Any, output: Any, keyword_only_inputs: Any) -> None:
    """What a derivative that there is none of remembers."""


def _by_gradient(shapes: Sequence[Any], dtypes: str) -> list[tuple[tuple[Any, Any], torch.dtype]]:
    """Shape and type of each gradient."""
    named = dtypes.split(",")
    return [((shapes[2 * at], shapes[2 * at + 1]), getattr(torch, name)) for at, name in enumerate(named)]


def _plans(states: Sequence[Tensor], sizes: Sequence[int]) -> tuple[RowPlan, ...]:
    """Plans of plain tensors and integers."""
    if any([size < 0 for size in sizes]):
        raise ValueError(f"the sizes of a plan are {list(sizes)}; none is negative")
    if len(sizes) != SIZES * len(states):
        raise ValueError(f"{len(states)} plans have {SIZES * len(states)} sizes, not {len(sizes)}")
    plans = []
    for at, state in enumerate(states):
        positions, rows, block, blocks, partials, rowless = sizes[SIZES * at : SIZES * (at + 1)]
        # Whoever calls an op keeps its arguments in order with the stream that it runs on, but may free them at once.
        note_use(state)
        plans.append(RowPlan(state, (positions, rows, block, blocks, partials, rowless), private.stream_of(state)))
    return tuple(plans)
