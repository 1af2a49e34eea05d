"""What a function over tensors takes, and how it says that it was given something else."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from rowloom.signature import Signature
from rowloom.torch import private
from rowloom.torch.declared import Declared
from rowloom.words import described

_OPTIONS = {"plan": None, "check": "now", "gradient_dtype": None}


class TensorSignature(Signature):
    """The arguments of a kernel's function over tensors."""

    def __init__(self, declared: Declared) -> None:
        super().__init__(declared.native, _OPTIONS)

    def rows(self, name: str, value: Any) -> int:
        # What is traced has a size that is not known yet: the call that runs says what is wrong with it.
        if isinstance(value, torch.SymInt) or (torch.compiler.is_compiling() and isinstance(value, int)):
            return value  # type: ignore[return-value]
        return super().rows(name, value)

    def refuse_other_than_tensors(self, arguments: Sequence[object], names: Sequence[str] | None = None) -> None:
        """`TypeError` for the first that is none."""
        for name, argument in zip(self.names if names is None else names, arguments, strict=True):
            if not isinstance(argument, Tensor):
                raise TypeError(
                    f"{self.function}: {name} is {described(argument)}; rowloom.torch takes tensors, rowloom.numpy arrays"
                )

    def refuse_tangents(self, arguments: Sequence[Tensor]) -> None:
        """`NotImplementedError` for what forward-mode differentiation brings: an op would drop it."""
        if private.forward_mode() and any([_tangent(x) is not None for x in arguments]):
            raise NotImplementedError(f"{self.function} has no forward-mode derivative")

    def refuse_gradient_dtype(self, dtype: object, arguments: Sequence[Tensor]) -> None:
        """`TypeError` for what is no type, `ValueError` for one that gradients of the tables cannot have."""
        if not isinstance(dtype, torch.dtype):
            raise TypeError(f"{self.function}: gradient_dtype is {dtype!r}; it must be a type such as torch.float32")
        self.refuse_gradients_of(dtype, [x.dtype for x in arguments], torch.float32)

    def refuse_rounded_gradients(self, dtype: torch.dtype, arguments: Sequence[Tensor]) -> None:
        """`ValueError` where a gradient of this type would not reach `.grad`: torch rounds it unless it is told.

        And for a type that no gradient can have, as `refuse_gradient_dtype`.
        """
        self.refuse_gradient_dtype(dtype, arguments)
        if not torch.is_grad_enabled():
            return
        compiling = torch.compiler.is_compiling()
        for name, kind, argument in zip(self.names, self.kinds, arguments, strict=True):
            if kind != "table" or not argument.requires_grad or dtype == argument.dtype:
                continue
            if not compiling and argument.is_leaf and getattr(argument, "grad_dtype", argument.dtype) in (dtype, None):
                continue
            raise ValueError(
                f"{self.function}: a gradient in {dtype} would be rounded to {argument.dtype} on its way to {name}; set "
                f"{name}.grad_dtype = {dtype} on a leaf tensor (PyTorch 2.11), which compiled code cannot see, or take it from "
                f"{self.function}.backward(…)"
            )


def refuse_other_layouts(function: str, names: Sequence[str], tensors: Sequence[Tensor]) -> None:
    """`ValueError` for the first that is sparse or nested."""
    for name, tensor in zip(names, tensors, strict=True):
        if tensor.layout is not torch.strided or tensor.is_nested:
            what = f"of layout {tensor.layout}" if tensor.layout is not torch.strided else "nested"
            raise ValueError(f"{function}: {name} is {what}; it must be a dense tensor with memory of its own")


def _tangent(tensor: Tensor) -> Tensor | None:
    tangent: Tensor | None = forward_ad.unpack_dual(tensor).tangent  # type: ignore[no-untyped-call]
    return tangent
