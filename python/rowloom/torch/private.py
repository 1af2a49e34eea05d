"""What rowloom uses of torch beyond its public interface: all of it, each with its reason and what is done without it."""

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import torch


def _found(path: str) -> Any:
    """An attribute of `torch._C` by its path, or None in a torch that has none."""
    at: Any = torch._C
    for name in path.split("."):
        at = getattr(at, name, None)
    return at


def _zero() -> int:
    return 0


def _none() -> None:
    return None


_dispatch_modes: Callable[[], int] = _found("_len_torch_dispatch_stack") or _zero
"""How many dispatch modes are active (FakeTensorMode, tracers): they must see an op, not a launch.
Without it modes see nothing of an eager call; `torch.compile` is known otherwise."""

_functorch_level: Callable[[], object] = _found("_functorch.peek_interpreter_stack") or _none
"""The innermost of functorch's transforms (`torch.func.grad`, `vmap`), or None: plain-looking tensors
are then wrapped. Without it such tensors are refused, since their memory cannot be reached."""

_tracing_state: Callable[[], object] = _found("_get_tracing_state") or _none
"""Not None inside `torch.jit.trace`, which records ops and would take a launch for a constant."""

_HAS_IDENTITY = hasattr(torch.UntypedStorage, "_cdata")
"""Whether a storage has a number of its own."""

_raw_stream: Callable[[int], int] | None = _found("_cuda_getCurrentRawStream")
_current_device: Callable[[], int] | None = _found("_cuda_getDevice")


_P = ParamSpec("_P")
_R = TypeVar("_R")


def untraced(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """`torch.compiler.disable`: a compiler calls the function as it is.

    But that imports the compiler, which takes as long as importing torch. Here it is left alone by who does not compile.
    """
    disabled: Callable[_P, _R] | None = None

    @functools.wraps(function)
    def untraced(*arguments: _P.args, **keywords: _P.kwargs) -> _R:
        nonlocal disabled
        if disabled is None:
            # Whoever compiles has its module.
            if "torch._dynamo" not in sys.modules:
                return function(*arguments, **keywords)
            disabled = torch.compiler.disable(function)  # type: ignore[no-untyped-call]
        return disabled(*arguments, **keywords)

    return untraced


def watched() -> bool:
    """Whether a mode, a transform, a tracer or forward-mode differentiation, whose tangents a launch would drop, is active."""
    return (
        _dispatch_modes() != 0
        or _functorch_level() is not None
        or _tracing_state() is not None
        or forward_mode()
    )


_is_batched: Callable[[torch.Tensor], bool] | None = _found("_functorch.is_legacy_batchedtensor")
"""Whether a tensor stands for several, one of a batch of gradients each: `torch.autograd.grad(…, is_grads_batched=True)`
and `jacobian(…, vectorize=True)`, whose batches are not those of `torch.func.vmap`. Without it they are refused."""

_is_mapped: Callable[[torch.Tensor], bool] | None = _found("_functorch.is_batchedtensor")
"""The same of `torch.func.vmap` over `torch.autograd.grad`."""


def batched(tensors: Sequence[torch.Tensor | None]) -> bool:
    """Whether one of these gradients stands for several."""
    return any([x is not None and any([kind is not None and kind(x) for kind in (_is_batched, _is_mapped)]) for x in tensors])


_Several = list[list[torch.Tensor | None]]


def unbatched(tensors: Sequence[torch.Tensor | None]) -> tuple[Callable[[torch.Tensor], torch.Tensor], _Several]:
    """Of each gradient of the innermost batch all tensors, and what makes of the stack of some the tensor that stands for them."""
    if _is_mapped is not None and any([x is not None and _is_mapped(x) for x in tensors]):
        return _unmapped(tensors)
    batches = [_innermost(x) for x in tensors if x is not None and batched([x])]
    level = max([level for level, _ in batches])
    count = next(count for at, count in batches if at == level)
    each = [[None] * count if x is None else torch._remove_batch_dim(x, level, count, 0).unbind() for x in tensors]
    return lambda stack: torch._add_batch_dim(stack, 0, level), [list(of_one) for of_one in zip(*each, strict=True)]


def batched_again(
    standing: Callable[[torch.Tensor], torch.Tensor], gradients: Sequence[Sequence[torch.Tensor | None]]
) -> tuple[torch.Tensor | None, ...]:
    """Tensors that stand for those of all gradients of the batch."""
    return tuple(
        None if of_all[0] is None else standing(torch.stack(of_all)) for of_all in zip(*gradients, strict=True)
    )


def _unmapped(tensors: Sequence[torch.Tensor | None]) -> tuple[Callable[[torch.Tensor], torch.Tensor], _Several]:
    """The same for `torch.func.vmap`, whose levels autograd tells its own threads."""
    functorch: Any = torch._C._functorch
    levels = [-1 if x is None else functorch.maybe_get_level(x) for x in tensors]
    level = max(levels)
    stacks = [
        functorch.get_unwrapped(x).movedim(functorch.maybe_get_bdim(x), 0) if at == level else None
        for x, at in zip(tensors, levels, strict=True)
    ]
    count = next(stack.shape[0] for stack in stacks if stack is not None)
    each = [[x] * count if stack is None else stack.unbind() for x, stack in zip(tensors, stacks, strict=True)]
    return lambda stack: functorch._add_batch_dim(stack, 0, level), [list(of_one) for of_one in zip(*each, strict=True)]


def _innermost(tensor: torch.Tensor) -> tuple[int, int]:
    """Number and size of the innermost batch that a tensor stands for.

    The number that torch counts belongs to a thread, and the backward of a GPU runs on another one than the caller's; so
    the tensor itself is asked. A batch that it does not have would be made by expanding it to any size.
    """
    level, found = 0, (0, 0)
    while batched([tensor]):
        level += 1
        as_none, as_one = [torch._remove_batch_dim(tensor, level, size, 0) for size in (0, 1)]
        if as_none.shape[0] == as_one.shape[0]:
            found = (level, as_one.shape[0])
            tensor = as_one
    return found


def recorded() -> bool:
    """Whether a tracer (`torch.jit.trace`, `make_fx`) records ops, to be run again without what Python did meanwhile.

    Without torch's own answer nothing is known of `make_fx`.
    """
    if _tracing_state() is not None:
        return True
    # Whoever has such a mode has its module.
    proxies = sys.modules.get("torch.fx.experimental.proxy_tensor") if _dispatch_modes() != 0 else None
    mode: Callable[[], object] = getattr(proxies, "get_proxy_mode", _none)
    return mode() is not None


def forward_mode() -> bool:
    """Whether tensors may have tangents. Without torch's own answer each is looked at."""
    return getattr(torch.autograd.forward_ad, "_current_level", 0) >= 0


def current_stream(device: int) -> int:
    """The current stream of a CUDA device as the driver knows it.

    The public way makes a stream object each time, which costs ten times as much.
    """
    if _raw_stream is not None:
        return _raw_stream(device)
    return int(torch.cuda.current_stream(device).cuda_stream)


def stream_of(tensor: torch.Tensor) -> int:
    """The current stream of a tensor's device; 0 on the CPU."""
    return current_stream(tensor.get_device()) if tensor.is_cuda else 0


def is_capturing(device: int) -> bool:
    """Whether the current stream of a CUDA device records a graph. The public question is about the current device."""
    current = torch.cuda.current_device() if _current_device is None else _current_device()
    if current == device:
        return torch.cuda.is_current_stream_capturing()
    with torch.cuda.device(device):
        return torch.cuda.is_current_stream_capturing()


def storage_identity(tensor: torch.Tensor) -> int:
    """A number that no other storage has while this one lives: views share it, while an allocator or a
    replayed graph may give an address again. Without torch's own it is the address."""
    storage = tensor.untyped_storage()
    return int(storage._cdata) if _HAS_IDENTITY else storage.data_ptr()


def content_key(tensor: torch.Tensor) -> tuple[object, ...]:
    """What stays the same as long as a tensor reads the same elements, unless they are edited behind its version.

    An inference tensor has no version: RuntimeError.
    """
    return (storage_identity(tensor), tensor._version, tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype)


def version(tensor: torch.Tensor) -> int | None:
    """How often what it holds was edited, as torch counts it; None for a tensor made in inference mode."""
    return None if tensor.is_inference() else tensor._version


def applying(function: type[torch.autograd.Function]) -> Callable[..., Any]:
    """`function.apply` for who knows that no transform of functorch is active, which is most of what it looks for.

    Without torch's own it is `function.apply`.
    """
    base = getattr(torch._C, "_FunctionBase", None)
    if base is None or not issubclass(function, base):
        return function.apply
    found: Callable[..., Any] = super(torch.autograd.Function, function).apply  # type: ignore[misc]
    return found
