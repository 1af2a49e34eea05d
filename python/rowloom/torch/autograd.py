"""Derivatives of eager calls.

A forward that went through plans keeps their state, so its gradient is that of the indices it saw,
whatever is written into them later. One that did not (`check="deferred"`, automatic plans off) saves
the indices, and torch refuses a backward after they were edited.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from rowloom.torch.eager import Call
from rowloom.torch.plans import RowPlan


class RowsFunction(torch.autograd.Function):
    """Any call, as autograd sees it."""

    @staticmethod
    def forward(ctx: Any, call: Call, *arguments: Tensor) -> Any:
        ctx.set_materialize_grads(False)
        if call.recent is None:
            results = call.forward()
        else:
            results = call.recent.call(arguments)
            if results is None:
                # What it was like is gone since it was looked for: edited by another thread, or forgotten.
                call = call.anew(arguments)
                results = call.forward()
        kinds = call.declared.kinds
        read = call.declared.reads(call.wanted_of(ctx.needs_input_grad[1:]))
        states: list[Tensor] = []
        ctx.indices = {}
        ctx.plans = []
        if call.keeps_plans and call.plans is not None:
            states = [plan.state for plan in call.plans]
            ctx.plans = [(plan.sizes, plan.made_on) for plan in call.plans]
            # Asked for their shapes alone, so edits of them are no fault.
            ctx.indices = {at: call.flat[at].detach() for at, kind in enumerate(kinds) if kind == "index"}
            saved = [reads and kind != "index" for reads, kind in zip(read, kinds, strict=True)]
        else:
            saved = [reads or kind == "index" for reads, kind in zip(read, kinds, strict=True)]
        ctx.saved = call.arguments_of(saved)
        ctx.save_for_backward(*[x for x, keep in zip(arguments, ctx.saved, strict=True) if keep], *states)
        # What is saved is saved above, and nothing else lives as long as the graph.
        if call.recent is None:
            call.flat = ()
            call.plans = None
        ctx.call = call
        if isinstance(results, Tensor):
            return results
        return results[0] if len(results) == 1 else tuple(results)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor | None) -> Any:
        call: Call = ctx.call
        needed = ctx.needs_input_grad[1:]
        wanted = call.wanted_of(needed)
        if not any(wanted) or all(x is None for x in cotangents):
            return (None,) * (1 + len(needed))
        tensors = iter(ctx.saved_tensors)
        arguments = [next(tensors) if keep else None for keep in ctx.saved]
        states = list(tensors)

        def compute() -> Sequence[Tensor | None]:
            inputs = call.inputs_of(arguments)
            if states:
                plans = tuple(RowPlan(state, *facts) for state, facts in zip(states, ctx.plans, strict=True))
                flat: Sequence[Tensor | None] = [
                    ctx.indices.get(at, x) for at, x in enumerate(call.flat_of(inputs))
                ]
            else:
                plans = call.plans_of(inputs)
                flat = call.flat_of(inputs)
            return call.gradients_of(call.backward(flat, cotangents, wanted, plans), needed)

        return None, *refusing_second(call.declared.name, [*cotangents, *arguments], compute)


def refusing_second(
    name: str, tensors: Sequence[Tensor | None], compute: Callable[[], Sequence[Tensor | None]]
) -> Sequence[Tensor | None]:
    """Gradients that depend on `tensors`, and that say so clearly when they are differentiated themselves."""
    if torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors):
        gradients: Sequence[Tensor | None] = _Once.apply(name, compute, *tensors)  # type: ignore[no-untyped-call]
        return gradients
    return compute()


class _Once(torch.autograd.Function):
    """Gradients, which have no derivative."""

    @staticmethod
    def forward(ctx: Any, name: str, compute: Callable[[], Sequence[Tensor | None]], *tensors: Tensor | None) -> Any:
        ctx.name = name
        return tuple(compute())

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor | None) -> Any:
        raise RuntimeError(second_derivative(ctx.name))


def second_derivative(name: str) -> str:
    """The sentence for who asks for one."""
    return f"{name} has a first derivative only: its gradient cannot be differentiated again"
