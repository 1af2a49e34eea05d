"""Leading dimensions: kernels know (S,) and (S, H), callers also have (B, S) and (B, S, H).

Positions are flattened, the batch outer. An index may lack leading dimensions that others have: it
is then the same for all of them.
"""

from collections.abc import Sequence

from torch import Tensor


def leading(kinds: Sequence[str], arguments: Sequence[Tensor]) -> tuple[int, ...]:
    """The shape of a call's positions: the longest among its rows and indices."""
    longest: tuple[int, ...] = ()
    for kind, argument in zip(kinds, arguments, strict=True):
        if kind == "table":
            continue
        shape = tuple(argument.shape)
        if kind == "rows" and len(shape) > 1:
            shape = shape[:-1]
        if len(shape) > len(longest):
            longest = shape
    return longest


def flat(kind: str, argument: Tensor, positions: tuple[int, ...]) -> Tensor:
    """An argument without leading dimensions. What does not fit is left for the call to refuse."""
    shape = tuple(argument.shape)
    if kind == "table" or len(positions) < 2:
        return argument
    if kind == "rows":
        return argument.reshape(-1, shape[-1]) if shape[:-1] == positions else argument
    if shape != positions and len(shape) > 0 and shape == positions[len(positions) - len(shape) :]:
        argument = argument.expand(positions)
        shape = positions
    return argument.reshape(-1) if shape == positions else argument


def shared(arguments: Sequence[Tensor], positions: tuple[int, ...]) -> bool:
    """Whether all these indices are one sequence that a batch shares."""
    return len(positions) > 1 and all(tuple(argument.shape) == positions[-1:] for argument in arguments)
