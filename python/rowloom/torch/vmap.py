"""How `torch.func.vmap` runs an op: torch's own way knows no lists of tensors, such as plans."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def one_by_one(qualified: str) -> Callable[..., Any]:
    """The rule of `torch.func.vmap`: one call after the other, so that each has the bytes of a call alone."""

    def rule(info: Any, in_dims: Any, *arguments: Any, **keywords: Any) -> Any:
        namespace, name = qualified.split("::")
        packet, _, overload = name.partition(".")
        op = getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")

        def of(at: int, argument: Any, dim: Any) -> Any:
            if isinstance(argument, (list, tuple)):
                dims = dim if isinstance(dim, (list, tuple)) else [dim] * len(argument)
                return [of(at, one, its) for one, its in zip(argument, dims, strict=True)]
            return argument if dim is None else argument.select(dim, at)

        if info.batch_size == 0:
            raise ValueError(f"{name}: torch.func.vmap is over a batch of none; rowloom has no empty tensors")
        each = [
            op(*[of(at, argument, dim) for argument, dim in zip(arguments, in_dims, strict=True)], **keywords)
            for at in range(info.batch_size)
        ]
        if isinstance(each[0], Tensor):
            return torch.stack(each), 0
        results = [torch.stack(list(one)) for one in zip(*each, strict=True)]
        return (results, [0] * len(results)) if isinstance(each[0], list) else (tuple(results), (0,) * len(results))

    return rule
