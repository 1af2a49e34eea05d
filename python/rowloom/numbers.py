"""Whole numbers that callers give: of the right kind, and of a size that a call can have."""

import operator

LIMIT = 2**63 - 1
"""No count is beyond it; most have limits of their own, which the call says."""


def whole(value: object) -> int | None:
    """An integer of Python or NumPy as one of Python, None for anything else."""
    # Arrays and tensors of one element can be indices too, but are no numbers.
    if isinstance(value, int):
        return int(value)
    if hasattr(value, "__index__") and not hasattr(value, "__len__"):
        return operator.index(value)
    return None


def rows(function: str, name: str, value: object) -> int:
    """A number of rows. `TypeError` for what is no integer, `ValueError` for less than 1 and for too many."""
    count = whole(value)
    if count is None:
        raise TypeError(f"{function}: {name} is {value!r}; it must be a number of rows")
    if count < 1:
        raise ValueError(f"{function}: {name} is {count}; it must be at least 1")
    if count > LIMIT:
        raise ValueError(f"{function}: {name} is {count}; the limit is {LIMIT}")
    return count


def batch(value: object, positions: int) -> int:
    """A number of sequences of so many positions. Errors as those of `rows`."""
    sequences = whole(value)
    if sequences is None:
        raise TypeError(f"the batch of the plan is {value!r}; it must be a number of sequences")
    if sequences < 1:
        raise ValueError(f"the batch of the plan has {sequences} sequences; it must have at least 1")
    if sequences * positions > LIMIT:
        raise ValueError(f"the batch of the plan has {sequences} sequences of {positions} positions; the limit is {LIMIT} positions")
    return sequences
