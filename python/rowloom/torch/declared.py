"""A declared kernel as PyTorch needs it: what a call's arguments are, and the layout of its results."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from rowloom import shapes
from rowloom._native import Kernel

ONE_BUFFER_BYTES = 4 << 30
"""Tensors of one output up to this size, together, are one allocation, which lives until the last of them goes: six
allocations take the host ten microseconds more, before the launch. Beyond it the kernel takes a hundred times that, and
memory matters more."""

LAYOUTS_KEPT = 1024
"""Shapes and types that a kernel knows the layout of; then it begins anew."""

_DIMENSIONS = {"rows": 2, "table": 2, "index": 1}


class Buffer(NamedTuple):
    """Memory of results: tensors of one output side by side."""

    tensors: int
    shape: tuple[int, int]
    """Of one tensor, flat."""
    positional: bool
    """Whether it has a row per position, so that it has the leading dimensions of a batch."""
    like: int
    """The input whose device and, where `dtype` is None, type it has."""
    dtype: torch.dtype | None


class Layout(NamedTuple):
    """What follows from the flat shapes and types of a call's inputs."""

    counts: dict[str, int]
    positions: int
    rows: tuple[int, ...]
    """For each row expression the rows of its plan."""
    buffers: tuple[Buffer, ...]
    """One for each output, or those of `apart`."""
    apart: tuple[Buffer, ...]
    """One for each tensor of each output."""


class Declared:
    """A kernel of a native module. Immutable, but for what it remembers."""

    def __init__(self, native: Kernel) -> None:
        self.native = native
        self.name = native.name
        self.names = tuple(declared.name for declared in native.inputs)
        self.kinds = tuple(declared.kind for declared in native.inputs)
        unknown = set(self.kinds) - _DIMENSIONS.keys()
        if unknown:
            raise NotImplementedError(f"{native.name} has an input of kind {min(unknown)}, which this version does not call")
        self.chunks = tuple(declared.chunks for declared in native.inputs)
        self.dimensions = tuple(_DIMENSIONS[kind] for kind in self.kinds)
        self.differentiable = tuple(declared.differentiable for declared in native.inputs)
        self.open_counts = tuple(native.open_counts)
        self.expressions = tuple(indices for _, indices, _ in native.row_expressions)
        self.sums = native.sums
        self.tensors = sum(output.tensors for output in native.outputs)
        self._reads: dict[tuple[bool, ...], tuple[bool, ...]] = {}
        self._layouts: dict[object, Layout] = {}
        self._like = tuple(self._origin(output.dtype) for output in native.outputs)

    def _origin(self, dtype: str) -> tuple[int, torch.dtype | None]:
        """Where an output's type comes from: an input of the same type, else its name."""
        tensors = [at for at, declared in enumerate(self.native.inputs) if declared.kind != "index"]
        for at in tensors:
            if self.native.inputs[at].dtype == dtype:
                return at, None
        return (tensors or [0])[0], fixed_dtype(dtype)

    def reads(self, wanted: tuple[bool, ...]) -> tuple[bool, ...]:
        """Of each input whether the backward reads it that gives the wanted gradients."""
        known = self._reads.get(wanted)
        if known is None:
            known = self._reads[wanted] = tuple(self.native.reads(wanted))
        return known

    @property
    def reads_plans_alone(self) -> bool:
        """Whether the backward reads nothing but plans and cotangents, whichever gradients are wanted."""
        read = self.reads(self.differentiable)
        return not any(read and kind != "index" for read, kind in zip(read, self.kinds, strict=True))

    def layout(self, inputs: Sequence[Tensor], counts: Mapping[str, int]) -> Layout:
        """The layout of a call with these flat inputs; `counts` are those that no input tells."""
        key = (tuple([(x.shape, x.dtype) for x in inputs]), *counts.values())
        known = self._layouts.get(key)
        if known is None:
            if len(self._layouts) >= LAYOUTS_KEPT:
                self._layouts.clear()
            known = self._layouts[key] = self._new_layout(inputs, counts)
        return known

    def _new_layout(self, inputs: Sequence[Tensor], counts: Mapping[str, int]) -> Layout:
        sizes = shapes.sizes(self.native, [x.shape for x in inputs], counts)
        found = shapes.output_shapes(self.native, sizes)
        outputs = [
            Buffer(output.tensors, shape, output.kind == "rows", like, dtype)
            for output, shape, (like, dtype) in zip(self.native.outputs, found, self._like, strict=True)
        ]
        apart = [one for output in outputs for one in [output._replace(tensors=1)] * output.tensors]
        together = all([output.tensors == 1 or _bytes(output, inputs) <= ONE_BUFFER_BYTES for output in outputs])
        rows_of_plans = tuple(shapes.rows_of(rows, sizes.counts) for _, _, rows in self.native.row_expressions)
        return Layout(sizes.counts, sizes.positions, rows_of_plans, tuple(outputs if together else apart), tuple(apart))

    def tensor_shapes(self, shapes_of_inputs: Sequence[shapes.Shape], counts: Mapping[str, shapes.Size]) -> list[tuple[shapes.Size, ...]]:
        """For each tensor of each output its flat shape; sizes may be symbolic."""
        sizes = shapes.sizes(self.native, shapes_of_inputs, counts)
        found = shapes.output_shapes(self.native, sizes)
        return [shape for output, shape in zip(self.native.outputs, found, strict=True) for _ in range(output.tensors)]

    def tensor_origins(self) -> list[tuple[int, torch.dtype | None]]:
        """For each tensor of each output the input that it is like, and its type where that is fixed."""
        return [like for output, like in zip(self.native.outputs, self._like, strict=True) for _ in range(output.tensors)]


def fixed_dtype(name: str) -> torch.dtype | None:
    """The type that a declaration names; None for a type parameter."""
    # Torch has more than types, and a parameter may be called as any of it.
    found = getattr(torch, name, None)
    return found if isinstance(found, torch.dtype) else None


def _bytes(buffer: Buffer, inputs: Sequence[Tensor]) -> int:
    dtype = inputs[buffer.like].dtype if buffer.dtype is None else buffer.dtype
    return buffer.tensors * buffer.shape[0] * buffer.shape[1] * dtype.itemsize
