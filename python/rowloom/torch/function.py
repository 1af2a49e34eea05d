"""Kernels as functions over tensors."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Never

import torch
from torch import Tensor
from torch.nn import Parameter

from rowloom._native import Kernel
from rowloom.torch import batches, ops, private
from rowloom.torch.autograd import RowsFunction, again, instead_of_torchs, refusing_second, second_derivative
from rowloom.torch.declared import Declared
from rowloom.torch.eager import Call, Plans, refuse_check
from rowloom.torch.execute import plain_plans, zero_cotangent
from rowloom.torch.plans import cache as plan_cache
from rowloom.torch.row_plan import RowPlan, new_plan, refuse_recorded
from rowloom.torch.signature import TensorSignature, refuse_other_layouts

_functions: dict[tuple[str, str], dict[tuple[int, str], "RowFunction"]] = {}
"""Of every kernel, by namespace and name, the functions of all orders of sums that were asked for, that of its own first: an
op can be defined once."""

_lock = threading.Lock()


class RowFunction:
    """A kernel as a function: tensors in the order of its declaration, or by name.

    `plan` is a `RowPlan` (or one for each row expression): the indices are then not read. Without one,
    plans are made and found again automatically, and a bad index is an `IndexError` now.
    `check="deferred"` never waits: a bad index is the `IndexError` of a later call on the stream, or of
    `rowloom.torch.synchronize()`. `gradient_dtype=torch.float32` gives gradients of tables in float32.

    Rows and indices may have leading dimensions of a batch, and an index may lack those. Row counts
    that no tensor tells are keywords by their declared names.

    Returns one tensor, or a tuple of all, none of them a view. Errors: `IndexError` for an index out
    of its bound; `TypeError` for arguments and element types; `ValueError` for sizes, strides and
    plans; `RuntimeError` for an automatic plan while a CUDA graph is captured.
    """

    def __init__(self, namespace: str, kernel: Kernel, order: str = "") -> None:
        """`order` ends the names of the ops of another order than the kernel's own."""
        self.declared = Declared(kernel)
        self._namespace = namespace
        self._names = self.declared.names
        self._kinds = self.declared.kinds
        self._dimensions = self.declared.dimensions
        self._open_counts = self.declared.open_counts
        self._signature = TensorSignature(self.declared)
        self._op = ops.define(namespace, kernel.name + order, self.declared)
        self._recent = plan_cache.recent(kernel)
        self.__name__ = self.__qualname__ = kernel.name
        self.__doc__ = f"{kernel.docs}\n\n{kernel.signature}\n\n{type(self).__doc__}"
        self.__signature__ = self._signature.python
        _functions.setdefault((namespace, kernel.name), {})[kernel.block, kernel.accumulate] = self

    def __repr__(self) -> str:
        order = f"block={self.declared.native.block}, accumulate={self.declared.native.accumulate}"
        return f"<rowloom kernel {self.__name__}[{order}]{self.__signature__}>"

    def __call__(
        self,
        *arguments: Tensor,
        plan: Plans | None = None,
        check: Literal["now", "deferred"] = "now",
        gradient_dtype: torch.dtype | None = None,
        **named: Tensor | int,
    ) -> Any:
        compiling = torch.compiler.is_compiling()
        if check == "now" and gradient_dtype is None and not named and not compiling:
            results = self._recent.call(arguments, plan)
            if results is not None:
                return again(results, *arguments) if type(results) is Call else results
        counts: Mapping[str, int] = {}
        if named or self._open_counts or len(arguments) != len(self._names):
            arguments, counts = self._signature.bind(arguments, named)
        if compiling:
            return self._traced(arguments, plan, check, counts, gradient_dtype)
        if not self.is_eager(arguments):
            return self._watched(arguments, plan, check, counts, gradient_dtype)
        return self._eager(arguments, plan, check, counts, gradient_dtype)

    def _eager(
        self,
        arguments: tuple[Tensor, ...],
        plan: Plans | None,
        check: str,
        counts: Mapping[str, int],
        gradient_dtype: torch.dtype | None,
    ) -> Any:
        """A call that nobody but autograd sees, remembered where it can be."""
        differentiated = False
        if torch.is_grad_enabled():
            for argument in arguments:
                if argument.requires_grad:
                    differentiated = True
        if gradient_dtype is not None:
            self._signature.refuse_rounded_gradients(gradient_dtype, arguments)
        refuse_other_layouts(self.__name__, self._names, arguments)
        batched = tuple([x.dim() for x in arguments]) != self._dimensions
        # From before plans are found: what is edited or forgotten meanwhile is not remembered.
        generation = self._recent.generation
        versions = None
        if plan is None:
            versions = [private.version(x) if kind == "index" else None for kind, x in zip(self._kinds, arguments, strict=True)]
        call = Call(self.declared, arguments, counts, plan, check, gradient_dtype, differentiated, batched=batched)
        plans = call.plans
        if differentiated:
            found = RowsFunction.apply(call, *arguments)  # type: ignore[no-untyped-call]
        else:
            results = call.forward()
            found = results[0] if len(results) == 1 else tuple(results)
        # Another sequence of plans may be filled anew.
        lasting = call.automatic if plan is None else isinstance(plan, RowPlan | tuple)
        if lasting and plans is not None and check == "now" and gradient_dtype is None and not self._open_counts:
            call.remember(self._recent, arguments, plans, plan, versions, generation)
        return found

    def is_eager(self, arguments: Sequence[Tensor]) -> bool:
        """Whether nothing but autograd watches what happens to these tensors, so that no op is needed."""
        for argument in arguments:
            kind = type(argument)
            if kind is not Tensor and kind is not Parameter:
                return False
        first = arguments[0]
        return not private.watched() and (first.is_cuda or first.is_cpu)

    def _watched(
        self,
        arguments: Sequence[Tensor],
        plan: Plans | None,
        check: str,
        counts: Mapping[str, int],
        gradient_dtype: torch.dtype | None,
    ) -> Any:
        """The same through the op, outside of compiled code, where what an op has no derivative for is refused in our words."""
        self._signature.refuse_other_than_tensors(arguments)
        self._signature.refuse_tangents(arguments)
        no_derivative = f"{self.__name__} has no derivative of torch.func (grad, vjp, jacrev): take it with torch.autograd.grad"
        with instead_of_torchs(NotImplementedError(no_derivative)):
            return self._traced(arguments, plan, check, counts, gradient_dtype)

    def _traced(
        self,
        arguments: Sequence[Tensor],
        plan: Plans | None,
        check: str,
        counts: Mapping[str, int],
        gradient_dtype: torch.dtype | None,
    ) -> Any:
        """The same through the op, for whoever watches ops: compilers, modes, transforms, subclasses."""
        refuse_check(self.__name__, check)
        if gradient_dtype is not None:
            self._signature.refuse_rounded_gradients(gradient_dtype, arguments)
        positions, flat = self._flattened(arguments)
        ordered = [counts[name] for name in self._open_counts]
        plain = plain_plans(self.declared, plan, arguments, positions)
        if plain is None:
            results = self._op.unplanned(*flat, check=check, counts=ordered, gradient_dtype=gradient_dtype)
        else:
            results = self._op.planned(*flat, *plain, counts=ordered, gradient_dtype=gradient_dtype)
        if len(positions) < 2:
            return results
        if isinstance(results, Tensor):
            return results.reshape(*positions, results.shape[-1]) if self._op.positional[0] else results
        return tuple(
            [
                result.reshape(*positions, result.shape[-1]) if positional else result
                for result, positional in zip(results, self._op.positional, strict=True)
            ]
        )

    def _flattened(self, arguments: Sequence[Tensor]) -> tuple[tuple[int, ...], list[Tensor]]:
        """The shape of the positions, and arguments without leading dimensions."""
        positions = batches.leading(self._names, self._kinds, arguments)
        return positions, batches.flat(self._names, self._kinds, arguments, positions)

    @private.untraced
    def plan(self, *indices: Tensor, rows: int | None = None, expression: int = 0, **named: Tensor) -> RowPlan:
        """The plan of one of the kernel's row expressions, from its indices in order or by name. Waits for the stream once.

        `rows` is the number of rows that the expression reads or sums into: R, where a table has R rows; it may
        be left out where the declaration says it. Leading dimensions are flattened. An index out of its
        bound is an `IndexError`, no positions are a `ValueError`.
        """
        number, names, given, count, counts = self._signature.planned(indices, named, rows, expression)
        self._signature.refuse_other_than_tensors(given, names)
        refuse_other_layouts(self.__name__, names, given)
        refuse_recorded()
        for name, index in zip(names, given, strict=True):
            if index.shape != given[0].shape and max(index.dim(), given[0].dim()) > 1:
                shapes = f"{tuple(index.shape)}, but {names[0]} has {tuple(given[0].shape)}"
                raise ValueError(f"{self.__name__}: {name} has shape {shapes}; the indices of a plan have one shape")
        flat = [index.reshape(-1) if index.dim() > 1 else index for index in given]
        return new_plan(self.declared.native, number, flat, count, counts, private.stream_of(flat[0]))

    def backward(
        self,
        cotangents: Tensor | Sequence[Tensor | None],
        *arguments: Tensor,
        plan: Plans | None = None,
        wants: str | Sequence[str] | None = None,
        gradient_dtype: torch.dtype | None = None,
        **named: Tensor | int,
    ) -> tuple[Tensor, ...]:
        """The gradients of the inputs named by `wants`, one name or several, in that order; of all that have one without it.

        `cotangents` has one tensor, or None for zeros, for each tensor of the forward's results; they tell row counts that
        no input tells. Plans are found and made as in a forward. A gradient cannot be differentiated again.
        """
        several = isinstance(cotangents, (list, tuple)) or (not isinstance(cotangents, Tensor) and hasattr(cotangents, "__iter__"))
        given = tuple(cotangents) if several else (cotangents,)
        arguments, counts = self._signature.bind_backward(given, arguments, named)
        self._signature.refuse_other_than_tensors(arguments)
        if gradient_dtype is not None:
            self._signature.refuse_gradient_dtype(gradient_dtype, arguments)
        declared = self.declared
        if len(given) != declared.tensors:
            raise TypeError(f"{self.__name__}.backward takes {declared.tensors} cotangents, not {len(given)}")
        present = [(f"cotangents[{at}]", x) for at, x in enumerate(given) if x is not None]
        self._signature.refuse_other_than_tensors([x for _, x in present], [name for name, _ in present])
        wants = self._signature.wanted(wants)
        wanted = tuple([name in wants for name in self._names])
        if not any(wanted):
            return ()
        if all(x is None for x in given):
            raise TypeError(f"{self.__name__}.backward needs a cotangent that is not None")
        if torch.compiler.is_compiling():
            return self._traced_backward(given, arguments, plan, wanted, wants, counts, gradient_dtype)
        if not self.is_eager([*arguments, *[x for x in given if x is not None]]):
            with instead_of_torchs(RuntimeError(second_derivative(self.__name__))):
                return self._traced_backward(given, arguments, plan, wanted, wants, counts, gradient_dtype)
        refuse_other_layouts(self.__name__, self._names, arguments)
        call = Call(declared, arguments, counts, plan, "deferred", gradient_dtype, True)

        def compute() -> Sequence[Tensor | None]:
            plans = call.plans if call.plans is not None else call.plans_of(arguments)
            return call.backward(call.flat, given, wanted, plans)

        gradients = dict(zip(self._names, refusing_second(self.__name__, [*given, *arguments], compute), strict=True))
        return tuple(gradient for name in wants if (gradient := gradients[name]) is not None)

    def _traced_backward(
        self,
        given: Sequence[Tensor | None],
        arguments: Sequence[Tensor],
        plan: Plans | None,
        wanted: Sequence[bool],
        wants: Sequence[str],
        counts: Mapping[str, int],
        gradient_dtype: torch.dtype | None,
    ) -> tuple[Tensor, ...]:
        """The same through the op."""
        positions, flat = self._flattened(arguments)
        facts = [(x.shape, x.dtype) for x in flat]
        shapes = self.declared.tensor_shapes([shape for shape, _ in facts], counts)
        like = next(x for x in given if x is not None)
        cotangents = [
            zero_cotangent(like, shape, like.dtype) if x is None else x.reshape(-1, x.shape[-1])
            for x, shape in zip(given, shapes, strict=True)
        ]
        plain = plain_plans(self.declared, plan, arguments, positions)
        found = iter(
            self._op.differentiate(cotangents, flat, facts, wanted, plain, counts, gradient_dtype)
        )
        gradients = {
            name: next(found).reshape(argument.shape)
            for name, argument, want in zip(self._names, arguments, wanted, strict=True)
            if want
        }
        return tuple([gradients[name] for name in wants])

    def __reduce__(self) -> tuple[Any, ...]:
        """By name: a copy is the function itself, and a saved model finds it again."""
        kernel = self.declared.native
        return _found, (self._namespace, kernel.name, kernel.block, kernel.accumulate)

    def with_order(self, *, block: int | None = None, accumulate: str | None = None, **unknown: Never) -> "RowFunction":
        """The same kernel with another order of sums, which is another meaning: `block` positions a block, `accumulate`
        "float32" or "float64", or "f32" and "f64" as declarations have it. Its ops have names of their own."""
        self._signature.refuse_other_orders(self.declared.native, unknown)
        kernel = self.declared.native.with_order(block=block, accumulate=accumulate)
        with _lock:
            known = _functions[self._namespace, kernel.name].get((kernel.block, kernel.accumulate))
            return known or RowFunction(self._namespace, kernel, f"_block{kernel.block}_{kernel.accumulate}")


def _found(namespace: str, name: str, block: int, accumulate: str) -> RowFunction:
    """The function that was saved. `ImportError` where the module of its kernel is not registered."""
    known = _functions.get((namespace, name))
    if known is None:
        raise ImportError(f"{name} is a kernel of {namespace}, which is not registered here: rowloom.torch.register(…) it first")
    return next(iter(known.values())).with_order(block=block, accumulate=accumulate)
