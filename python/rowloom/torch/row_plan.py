"""Plans over tensors, as data."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from rowloom import numbers
from rowloom._native import Kernel, plan_elements, repeat_plan
from rowloom.plan import PlanData
from rowloom.torch import private

if TYPE_CHECKING:
    from rowloom._native import PlanSizes


class RowPlan(PlanData[Tensor]):
    """Which row each position has, checked and in order: a copy, so later edits of the indices do not change it.

    `state` is an int32 tensor on the device of the indices and `sizes` are plain integers, so a plan
    passes through `torch.compile` and CUDA graphs like any tensor. Its content is trusted: only
    `function.plan`, `repeat` and `copy.deepcopy` make one, and one whose state was written to is refused.
    """

    __slots__ = ("__weakref__", "_repeated", "_stream", "_version", "cached")

    def __init__(self, state: Tensor, sizes: "PlanSizes", stream: int) -> None:
        super().__init__(state, sizes)
        self._stream = stream
        self._version = private.version(state)
        self.cached = False
        """Whether it is found again by its indices."""
        self._repeated: dict[int, RowPlan] = {}

    def repeat(self, batch: int) -> "RowPlan":
        """The plan of `batch` sequences that share this one, the batch outer. Made once for each `batch`; waits once then.

        Raises `ValueError` for a batch of no sequences or of more positions than a plan can have, and for a plan
        that was edited.
        """
        self.refuse_edited()
        positions, rows, block = self.sizes[:3]
        batch = numbers.batch(batch, positions)
        if batch == 1:
            return self
        known = self._repeated.get(batch)
        if known is None:
            refuse_recorded()
            stream = self._reading()
            state = _new_state(plan_elements(positions * batch, rows, block), self.state.device)
            sizes = with_room(self.state.device, lambda: repeat_plan(stream, (self.state, self.sizes), batch, state))
            known = self._repeated[batch] = RowPlan(state, sizes, stream)
        return known

    def refuse_edited(self) -> None:
        """Raises `ValueError` if the state was written to since it was made."""
        if private.version(self.state) != self._version:
            raise ValueError("the state of a plan was edited; make a plan of other indices, and leave this one as it is")

    def used_on(self, stream: int) -> None:
        """Notes that the current stream, which has this number, reads the state."""
        if stream != self._stream:
            note_use(self.state)

    def _reading(self) -> int:
        """The current stream, which is about to read the state, as a number."""
        stream = private.stream_of(self.state)
        self.used_on(stream)
        return stream

    @property
    def made_on(self) -> int:
        """The stream that the state was allocated for, as a number."""
        return self._stream

    def __repr__(self) -> str:
        return f"RowPlan(positions={self.positions}, rows={self.rows}, device={self.state.device})"

    def __deepcopy__(self, memo: dict[int, Any]) -> "RowPlan":
        """Waits for the current stream once, since any other may use the copy at once."""
        refuse_recorded()
        self.refuse_edited()
        stream = self._reading()
        state = _new_state(self.state.numel(), self.state.device)
        with torch.no_grad():
            state.copy_(self.state)
        if state.is_cuda:
            torch.cuda.current_stream(state.device).synchronize()
        return RowPlan(state, self.sizes, stream)


def refuse_recorded() -> None:
    """`RuntimeError` where a tracer would keep the memory of a new plan, and not what fills it."""
    if private.recorded():
        raise RuntimeError("a plan is made while a tracer records, which would not see it being filled: make it before, and pass it")


def note_use(state: Tensor) -> None:
    """The allocator must not reuse a plan's memory before the current stream has read it."""
    if state.is_cuda:
        state.record_stream(torch.cuda.current_stream(state.device))


def _new_state(elements: int, device: torch.device) -> Tensor:
    """Memory for a plan. One made in `torch.inference_mode` may serve a backward later, so it is no inference tensor."""
    with torch.inference_mode(False):
        return torch.empty(elements, dtype=torch.int32, device=device)


def new_plan(
    kernel: Kernel, expression: int, indices: Sequence[Tensor], rows: int, counts: Mapping[str, int], stream: int
) -> RowPlan:
    """Builds the plan of one row expression from its flat indices. Waits for the stream once."""
    positions = indices[0].shape[0] if indices[0].dim() else 0
    # A row count that no plan can have is for the call to refuse.
    elements = plan_elements(positions, rows, kernel.block) if positions > 0 and rows > 0 else 0
    device = indices[0].device
    state = _new_state(elements, device)
    sizes = with_room(device, lambda: kernel.plan(stream, expression, list(indices), dict(counts), state))
    return RowPlan(state, sizes, stream)


_T = TypeVar("_T")


def with_room(device: torch.device, call: Callable[[], _T]) -> _T:
    """What takes memory of rowloom's own, which on a GPU may be free and yet not there: torch's allocator keeps what was freed."""
    try:
        return call()
    except MemoryError:
        if device.type != "cuda":
            raise
    torch.cuda.empty_cache()
    return call()
