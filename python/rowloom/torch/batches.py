"""Leading dimensions: kernels know (S,) and (S, H), callers also have (B, S) and (B, S, H).

Positions are flattened, the batch outer. An index may lack leading dimensions that others have: it
is then the same for all of them.
"""

from collections.abc import Sequence

from torch import Tensor


def leading(names: Sequence[str], kinds: Sequence[str], arguments: Sequence[Tensor]) -> tuple[int, ...]:
    """The shape of a call's positions: the longest among its rows and indices. `ValueError` for a batch of tables."""
    longest: tuple[int, ...] = ()
    for name, kind, argument in zip(names, kinds, arguments, strict=True):
        shape = tuple(argument.shape)
        if kind == "table":
            if not 1 <= len(shape) <= 2:
                raise ValueError(f"{name} has {len(shape)} axes, but must have 1 or 2")
            continue
        if kind == "rows" and len(shape) > 1:
            shape = shape[:-1]
        if len(shape) > len(longest):
            longest = shape
    return longest


def flat(name: str, kind: str, argument: Tensor, positions: tuple[int, ...]) -> Tensor:
    """An argument without leading dimensions. `ValueError` for dimensions that are not those of the batch."""
    if kind == "table" or len(positions) < 2:
        return argument
    shape = tuple(argument.shape)
    if kind == "rows":
        if shape[:-1] != positions:
            raise ValueError(f"{name} has shape {shape}, but must have {(*positions, 'H')}: other arguments have those positions")
        return argument.reshape(-1, shape[-1])
    if shape == positions:
        return argument.reshape(-1)
    if len(shape) == 0 or shape != positions[len(positions) - len(shape) :]:
        raise ValueError(f"{name} has shape {shape}, but must have {positions} or its end: other arguments have those positions")
    return argument.expand(positions).reshape(-1)


def shared(arguments: Sequence[Tensor], positions: tuple[int, ...]) -> bool:
    """Whether all these indices are one sequence that a batch of these positions shares."""
    return all(tuple(argument.shape) == positions[-1:] for argument in arguments)
