"""Derivatives of eager calls.

A forward that went through plans keeps them, so its gradient is that of the indices it saw,
whatever is written into them later. One that did not (`check="deferred"`, automatic plans off) saves
the indices, and torch refuses a backward after they were edited.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from rowloom.torch import private
from rowloom.torch.eager import Call


class RowsFunction(torch.autograd.Function):
    """Any call, as autograd sees it."""

    @staticmethod
    def forward(ctx: Any, call: Call, *arguments: Tensor) -> Any:
        ctx.set_materialize_grads(False)
        ctx.call = call
        if call.launch is not None:
            return call.launch.run(arguments)
        results = call.forward()
        kinds = call.declared.kinds
        read = call.declared.reads(call.wanted_of(ctx.needs_input_grad[1:]))
        planned = call.keeps_plans and call.plans is not None
        # Beside plans the indices are asked for their shapes alone, so edits of them are no fault.
        saved = [not planned if kind == "index" else reads for reads, kind in zip(read, kinds, strict=True)]
        ctx.saved = call.arguments_of(saved)
        ctx.save_for_backward(*[x for x, keep in zip(arguments, ctx.saved, strict=True) if keep])
        call.settle(planned)
        return results[0] if len(results) == 1 else tuple(results)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor | None) -> Any:
        call: Call = ctx.call
        needed = ctx.needs_input_grad[1:]
        if call.launch is not None:
            found = call.launch.backward(needed, cotangents)
            if found is not None:
                return None, *found
        if private.batched(cotangents):
            # One after the other, so that each has the bytes of a backward alone.
            standing, gradients = private.unbatched(cotangents)
            return private.batched_again(standing, [RowsFunction.backward(ctx, *one) for one in gradients])
        wanted = call.wanted_of(needed)
        if not any(wanted) or all(x is None for x in cotangents):
            return (None,) * (1 + len(needed))
        tensors = iter(ctx.saved_tensors)
        saved = [False] * len(needed) if call.launch is not None else ctx.saved
        arguments = [next(tensors) if keep else None for keep in saved]

        def compute() -> Sequence[Tensor | None]:
            inputs = call.inputs_of(arguments)
            flat = call.flat_of(inputs)
            plans = call.plans
            if plans is None:
                plans = call.plans_of(inputs)
            else:
                flat = [x if kept is None else kept for x, kept in zip(flat, call.flat, strict=True)]
            return call.gradients_of(call.backward(flat, cotangents, wanted, plans), needed)

        return None, *refusing_second(call.declared.name, [*cotangents, *arguments], compute)


again: Callable[..., Any] = private.applying(RowsFunction)
"""`RowsFunction.apply` for calls that are like earlier ones."""


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


@contextlib.contextmanager
def instead_of_torchs(refusal: Exception) -> Iterator[None]:
    """Raises this where `torch.func` differentiates an op: torch's own error speaks of how ops are written."""
    try:
        yield
    except RuntimeError as error:
        if "setup_context" not in str(error):
            raise
        raise refusal from None
