"""Calls of the native module on plain, flat tensors: memory for the results, the current stream, the launch."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rowloom.torch import batches, plans, private
from rowloom.torch.declared import Declared, Layout
from rowloom.torch.row_plan import RowPlan, new_plan, with_room
from rowloom.words import described

if TYPE_CHECKING:
    from rowloom._native import PlanSizes


def given_plans(declared: Declared, plan: "RowPlan | Sequence[RowPlan]") -> tuple[RowPlan, ...]:
    """One plan for each row expression, as a caller gave them."""
    several = isinstance(plan, (list, tuple)) or (not isinstance(plan, RowPlan) and hasattr(plan, "__iter__"))
    given: tuple[Any, ...] = tuple(plan) if several else (plan,)  # type: ignore[arg-type]
    for one in given:
        if not isinstance(one, RowPlan):
            raise TypeError(f"{declared.name}: plan is {described(one)}; {declared.name}.plan(…) makes a RowPlan of rowloom.torch")
    if len(given) != len(declared.expressions):
        raise ValueError(f"{declared.name} takes {len(declared.expressions)} plans, one for each row expression, not {len(given)}")
    return given


def explicit_plans(
    declared: Declared, plan: "RowPlan | Sequence[RowPlan]", arguments: Sequence[Tensor], positions: tuple[int, ...]
) -> tuple[RowPlan, ...]:
    """The plans that a caller gave, repeated where a batch shares its indices."""
    given = given_plans(declared, plan)
    if len(positions) < 2:
        return given
    batch = math.prod(positions[:-1])
    return tuple(
        one.repeat(batch)
        if one.positions == positions[-1] and batches.shared([arguments[at] for at in indices], positions)
        else one
        for one, indices in zip(given, declared.expressions, strict=True)
    )


def plain_plans(
    declared: Declared, plan: "RowPlan | Sequence[RowPlan] | None", arguments: Sequence[Tensor], positions: tuple[int, ...]
) -> tuple[list[Tensor], list[int]] | None:
    """Plans as ops take them. Ops trust them, so here is where one that was edited is refused."""
    if plan is None:
        return None
    if torch.compiler.is_compiling():
        # A version is nothing that compiled code can ask for, and a repeated plan nothing that it can make.
        given = given_plans(declared, plan)
    else:
        given = explicit_plans(declared, plan, arguments, positions)
        for one in given:
            one.refuse_edited()
    return [one.state for one in given], [size for one in given for size in one.sizes]


def automatic_plans(
    declared: Declared,
    arguments: Sequence[Tensor],
    flat: Sequence[Tensor],
    positions: tuple[int, ...],
    rows_of_plans: Sequence[int],
    counts: Mapping[str, int],
    build: bool,
    cached: bool,
) -> tuple[RowPlan, ...] | None:
    """The plans of a call's indices: found, or else made where `build`; None where one is missing.

    `arguments` are the indices as the caller has them, which plans are found by; `flat` what plans are
    made of; `rows_of_plans` has one number for each row expression, and `counts` all row counts. `cached` is
    whether plans may be found and kept at all.
    """
    found = []
    for expression, indices in enumerate(declared.expressions):
        given = [arguments[at] for at in indices]
        rows = rows_of_plans[expression]
        stream = private.stream_of(given[0])
        batch = math.prod(positions[:-1]) if len(positions) > 1 and batches.shared(given, positions) else 1
        key = None
        # Inference tensors have no version, so nothing would show an edit.
        if cached and not any([x.is_inference() for x in given]):
            if given[0].is_cuda and private.is_capturing(given[0].get_device()):
                raise RuntimeError(
                    f"{declared.name}: a CUDA graph is being captured, and its replays would not see an edit of the "
                    f"indices; pass plan={declared.name}.plan(…), made before the capture"
                )
            key = plans.key_of(declared, expression, given, rows, stream, batch)
            known = plans.cache.find(key, given)
            if known is not None:
                found.append(known)
                continue
        if not build:
            return None
        made_of = given if batch > 1 else [flat[at] for at in indices]
        plan = new_plan(declared.native, expression, made_of, rows, counts, stream).repeat(batch)
        if key is not None:
            plans.cache.keep(key, given, plan)
        found.append(plan)
    return tuple(found)


def native_plans(given: Sequence[RowPlan], stream: int) -> "list[tuple[Tensor, PlanSizes]]":
    """Plans as the native module takes them, for a call on the current stream."""
    for plan in given:
        plan.refuse_edited()
        plan.used_on(stream)
    return [(plan.state, plan.sizes) for plan in given]


def forward(
    declared: Declared,
    inputs: Sequence[Tensor],
    positions: tuple[int, ...],
    layout: Layout,
    given: Sequence[RowPlan] | None,
    check: str,
    counts: Mapping[str, int],
    apart: bool = False,
) -> list[Tensor]:
    """Runs the kernel: for each tensor of each output one that is no view.

    `inputs` are flat; `positions` are the leading dimensions of the results. `apart` gives each tensor
    memory of its own.
    """
    buffers = layout.apart if apart else layout.buffers
    memory = [
        inputs[buffer.like].new_empty(
            buffer.shape if buffer.tensors == 1 else (buffer.tensors, *buffer.shape), dtype=buffer.dtype
        )
        for buffer in buffers
    ]
    stream = private.stream_of(inputs[0])
    native = None if given is None else native_plans(given, stream)
    scratch = _scratch_of(inputs[0])

    def run() -> None:
        declared.native.forward(stream, inputs, memory, native, check, counts, scratch)  # type: ignore[arg-type]

    run() if native is not None else with_room(inputs[0].device, run)
    # The kernel runs; only now are its outputs told apart.
    results: list[Tensor] = []
    for buffer, tensors in zip(buffers, memory, strict=True):
        batched = buffer.positional and len(positions) > 1
        if buffer.tensors == 1 and not batched:
            results.append(tensors)
            continue
        rows = positions if batched else buffer.shape[:1]
        side_by_side = tensors.view(buffer.tensors * rows[0], *rows[1:], buffer.shape[1])
        results.extend(torch.unsafe_split(side_by_side, rows[0]))
    return results


def _scratch_of(like: Tensor) -> Callable[[int], Tensor]:
    """Scratch memory from torch's allocator: a capture's pool owns it, and no other pool keeps memory."""
    return lambda count: like.new_empty(count, dtype=torch.uint8)


def backward(
    declared: Declared,
    inputs: Sequence[Tensor | None],
    cotangents: Sequence[Tensor],
    wanted: Sequence[tuple[Sequence[int], torch.dtype] | None],
    given: Sequence[RowPlan],
) -> list[Tensor | None]:
    """Runs the backward: for each input its gradient, or None where it is not wanted.

    `inputs` and `cotangents` are flat; `wanted` is shape and type of each input's gradient, with the leading
    dimensions of a batch, or None.
    """
    like = cotangents[0]
    gradients = [None if want is None else like.new_empty(want[0], dtype=want[1]) for want in wanted]
    flat = [
        gradient.view(-1, gradient.shape[-1]) if gradient is not None and gradient.dim() > 2 else gradient
        for gradient in gradients
    ]
    stream = private.stream_of(like)
    native = native_plans(given, stream)
    declared.native.backward(stream, inputs, cotangents, flat, native, _scratch_of(like))
    return gradients


def ready_cotangent(cotangent: Tensor) -> Tensor:
    """A cotangent that a kernel can read: flat, with unit column stride."""
    if cotangent.dim() > 2:
        cotangent = cotangent.reshape(-1, cotangent.shape[-1])
    if cotangent.dim() == 2 and cotangent.stride(1) != 1 and cotangent.shape[1] != 1:
        cotangent = cotangent.contiguous()
    return cotangent.resolve_neg() if cotangent.is_neg() else cotangent


def zero_cotangent(like: Tensor, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """The cotangent of a tensor that nothing used: one row of zeros, expanded."""
    return like.new_zeros((1, shape[-1]), dtype=dtype).expand(shape[0], shape[-1])
