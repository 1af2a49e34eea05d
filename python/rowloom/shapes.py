"""Shapes of a kernel's results from the shapes of its arguments.

All shapes are flat: rows are (S, H), tables (rows, chunks·H), indices (S,). Nothing is checked
here: sizes that do not fit give some shape, and the call says what is wrong in the words of the
Rust side. Only `+ - * //` and lengths are used, so sizes may be symbolic.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from rowloom._native import Extent, Kernel

Size = Any
"""An `int`, or what stands for one while a call is traced (`torch.SymInt`)."""

Shape = Sequence[Size]


class Sizes(NamedTuple):
    """The numbers that a call's shapes follow from."""

    positions: Size
    """S."""
    columns: Size
    """H."""
    counts: dict[str, Size]
    """Every row count, by name."""


def rows_of(extent: "Extent", counts: Mapping[str, Size]) -> Size:
    """Rows of a table, or the bound of an index."""
    if extent.count is None:
        return extent.numerator
    return extent.numerator * counts[extent.count] // extent.denominator


def sizes(kernel: "Kernel", shapes: Sequence[Shape | None], counts: Mapping[str, Size]) -> Sizes:
    """Sizes of a call from the shapes of its inputs, in order, and the counts that no input tells.

    A shape may be None where the input is not known; what only it would tell is then missing, or 0.
    """
    positions: Size = None
    columns: Size = None
    known = dict(counts)
    for declared, shape in zip(kernel.inputs, shapes, strict=True):
        if shape is None:
            continue
        if declared.kind == "table":
            extent = declared.rows
            if extent is not None and extent.count is not None:
                rows = shape[0] if len(shape) > 0 else 0
                known.setdefault(extent.count, rows * extent.denominator // extent.numerator)
            if columns is None:
                columns = shape[-1] // declared.chunks if len(shape) > 1 else 1
            continue
        if positions is None:
            positions = shape[0] if len(shape) > 0 else 0
        if declared.kind == "rows" and columns is None:
            columns = shape[-1] if len(shape) > 1 else 1
    return Sizes(0 if positions is None else positions, 0 if columns is None else columns, known)


def output_shapes(kernel: "Kernel", sizes: Sizes) -> list[tuple[Size, ...]]:
    """For each output the shape of one of its tensors."""
    shapes: list[tuple[Size, ...]] = []
    for output in kernel.outputs:
        if output.kind == "rows":
            shapes.append((sizes.positions, sizes.columns))
        else:
            assert output.rows is not None, "a table has rows"
            shapes.append((rows_of(output.rows, sizes.counts), output.chunks * sizes.columns))
    return shapes
