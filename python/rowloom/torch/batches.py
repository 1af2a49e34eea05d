"""Leading dimensions: kernels know (S,) and (S, H), callers also have (B, S) and (B, S, H).

Positions are flattened, the batch outer. An index may lack leading dimensions that others have: it
is then the same for all of them.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from rowloom.words import type_name

_HELD = {
    "index": ("u8, i32 or i64", (torch.uint8, torch.int32, torch.int64)),
    "rows": ("f32, f16 or bf16", (torch.float32, torch.float16, torch.bfloat16)),
}
"""Types that indices may hold, and what else may."""


def leading(names: Sequence[str], kinds: Sequence[str], arguments: Sequence[Tensor]) -> tuple[int, ...]:
    """The shape of a call's positions: the longest among its rows and indices. `ValueError` for a batch of tables."""
    longest: tuple[int, ...] = ()
    for name, kind, argument in zip(names, kinds, arguments, strict=True):
        shape = tuple(argument.shape)
        if kind == "table":
            if not 1 <= len(shape) <= 2:
                _refuse_other_types(names, kinds, arguments)
                raise ValueError(f"{name} has {len(shape)} axes, but must have 2: a table is (rows, columns), and has no batch")
            continue
        if kind == "rows" and len(shape) > 1:
            shape = shape[:-1]
        if len(shape) > len(longest):
            longest = shape
    return longest


def flat(
    names: Sequence[str], kinds: Sequence[str], arguments: Sequence[Tensor | None], positions: tuple[int, ...]
) -> list[Any]:
    """A call's arguments without leading dimensions; None stays.

    `ValueError` for dimensions that are not those of the batch, `TypeError` where a type says that it is not the shape that is wrong.
    """
    if len(positions) < 2:
        return list(arguments)
    each = zip(names, kinds, arguments, strict=True)
    found = [x if x is None or kind == "table" else _flat_one(kind, x, positions) for _, kind, x in each]
    for name, kind, argument, one in zip(names, kinds, arguments, found, strict=True):
        if one is None and argument is not None:
            _refuse_other_types(names, kinds, arguments)
            raise ValueError(f"{name} has shape {tuple(argument.shape)}, but {_expected(names, kinds, arguments, kind, positions)}")
    return found


def _flat_one(kind: str, argument: Tensor, positions: tuple[int, ...]) -> Tensor | None:
    """Rows or an index without leading dimensions; None for dimensions that are not those of the batch."""
    shape = tuple(argument.shape)
    if kind == "rows":
        return argument.reshape(-1, shape[-1]) if shape[:-1] == positions else None
    if shape == positions:
        return argument.reshape(-1)
    if len(shape) == 0 or shape != positions[len(positions) - len(shape) :]:
        return None
    return argument.expand(positions).reshape(-1)


def _expected(
    names: Sequence[str], kinds: Sequence[str], arguments: Sequence[Tensor | None], kind: str, positions: tuple[int, ...]
) -> str:
    """What shape an argument must have, and why."""
    of_whom = next(
        name
        for name, other, x in zip(names, kinds, arguments, strict=True)
        if x is not None and other != "table" and tuple(x.shape if other == "index" else x.shape[:-1]) == positions
    )
    if kind == "rows":
        columns = f"({', '.join(map(str, positions))}, H)"
        return f"must have {columns}: {of_whom} has positions {positions}"
    return f"must have {positions}, the positions of {of_whom}, or {positions[-1:]} for an index that all sequences share"


def _refuse_other_types(names: Sequence[str], kinds: Sequence[str], arguments: Sequence[Tensor | None]) -> None:
    """`TypeError` for the first argument of a type that its kind cannot hold: it may stand in another's place."""
    for name, kind, argument in zip(names, kinds, arguments, strict=True):
        held, types = _HELD["index" if kind == "index" else "rows"]
        if argument is not None and argument.dtype not in types:
            found = type_name(str(argument.dtype).removeprefix("torch."))
            raise TypeError(f"{name} holds {found}, but must hold {held}")


def shared(arguments: Sequence[Tensor], positions: tuple[int, ...]) -> bool:
    """Whether all these indices are one sequence that a batch of these positions shares."""
    return all(tuple(argument.shape) == positions[-1:] for argument in arguments)
