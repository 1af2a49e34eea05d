"""What plans of tensors and of arrays have in common."""

from typing import TYPE_CHECKING, Generic, NoReturn, Self, TypeVar

if TYPE_CHECKING:
    from rowloom._native import PlanSizes

State = TypeVar("State")


class PlanData(Generic[State]):
    """Which row each position has, checked and in order: a copy, so later edits of the indices do not change it.

    Its content is trusted, so nothing but the native module makes it.
    """

    __slots__ = ("_sizes", "_state")

    def __init__(self, state: State, sizes: "PlanSizes") -> None:
        self._state = state
        self._sizes = sizes

    @property
    def state(self) -> State:
        """int32, on the device of the indices."""
        return self._state

    @property
    def sizes(self) -> "PlanSizes":
        """Plain integers; the first two are S and R."""
        return self._sizes

    @property
    def positions(self) -> int:
        """S."""
        return self._sizes[0]

    @property
    def rows(self) -> int:
        """R."""
        return self._sizes[1]

    def __copy__(self) -> Self:
        """Nothing of it changes."""
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a RowPlan cannot be pickled, since its content is trusted: make it anew from the indices")
