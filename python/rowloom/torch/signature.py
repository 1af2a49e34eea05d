"""What a function takes, and how it says that it was given something else."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from rowloom.torch import private
from rowloom.torch.declared import Declared

_OPTIONS = {"plan": None, "check": "now", "gradient_dtype": None}


class Signature:
    """The arguments of a kernel's function."""

    def __init__(self, declared: Declared) -> None:
        self._function = declared.name
        self._names = declared.names
        self._kinds = declared.kinds
        self._counts = declared.open_counts
        tensors = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in self._names]
        counts = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in self._counts]
        options = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default) for name, default in _OPTIONS.items()
        ]
        self.python = inspect.Signature([*tensors, *counts, *options])

    def bind(self, arguments: Sequence[Tensor], named: Mapping[str, Any]) -> tuple[tuple[Tensor, ...], dict[str, int]]:
        """Tensors in order, and row counts in order. `TypeError` for what does not fit."""
        tensors = dict(zip(self._names, arguments, strict=False))
        counts: dict[str, int] = {}
        if len(arguments) > len(self._names):
            raise self._misused(f"takes {len(self._names)} tensors, {len(arguments)} were given")
        for name, value in named.items():
            if name in self._counts:
                # A tuple: PyTorch 2.8 does not compile a union of types.
                if not isinstance(value, (int, torch.SymInt)):
                    raise self._misused(f"was given a {type(value).__name__} for {name}, a number of rows")
                counts[name] = value  # type: ignore[assignment]
            elif name not in self._names:
                raise self._misused(f"has no argument {name!r}")
            elif name in tensors:
                raise self._misused(f"was given {name!r} twice")
            else:
                tensors[name] = value
        missing = [name for name in self._names if name not in tensors] + [name for name in self._counts if name not in counts]
        if missing:
            raise self._misused(f"was not given {', '.join(missing)}")
        return tuple([tensors[name] for name in self._names]), {name: counts[name] for name in self._counts}

    def _misused(self, how: str) -> TypeError:
        return TypeError(f"{self._function}{self.python} {how}")

    def refuse_other_than_tensors(self, arguments: Sequence[object], names: Sequence[str] | None = None) -> None:
        """`TypeError` for the first that is none."""
        for name, argument in zip(self._names if names is None else names, arguments, strict=True):
            if not isinstance(argument, Tensor):
                raise TypeError(
                    f"{self._function}: {name} is a {type(argument).__name__}; rowloom.torch takes tensors, rowloom.numpy arrays"
                )

    def refuse_tangents(self, arguments: Sequence[Tensor]) -> None:
        """`NotImplementedError` for what forward-mode differentiation brings: an op would drop it."""
        if private.forward_mode() and any([_tangent(x) is not None for x in arguments]):
            raise NotImplementedError(f"{self._function} has no forward-mode derivative")

    def refuse_rounded_gradients(self, dtype: torch.dtype, arguments: Sequence[Tensor]) -> None:
        """`ValueError` where a gradient of this type would not reach `.grad`: torch rounds it unless it is told."""
        for name, kind, argument in zip(self._names, self._kinds, arguments, strict=True):
            if kind != "table" or not argument.requires_grad or dtype == argument.dtype:
                continue
            if argument.is_leaf and getattr(argument, "grad_dtype", argument.dtype) in (dtype, None):
                continue
            raise ValueError(
                f"{self._function}: a gradient in {dtype} would be rounded to {argument.dtype} on its way to {name}; set "
                f"{name}.grad_dtype = {dtype} on a leaf tensor (PyTorch 2.11), or take it from {self._function}.backward(…)"
            )


def _tangent(tensor: Tensor) -> Tensor | None:
    tangent: Tensor | None = forward_ad.unpack_dual(tensor).tangent  # type: ignore[no-untyped-call]
    return tangent
