"""Comparisons of bytes on the device, read all at once: a wait for each would be most of the time."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

ROWS_AT_ONCE = 2048
CALLS_AT_ONCE = 256

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def bits(tensor: Tensor) -> Tensor:
    """The same memory as integers: a NaN equals itself there, and -0.0 is not +0.0."""
    return tensor.detach().view(_BITS[tensor.element_size()])


class Differences:
    """For each of some slots, whether anything that was compared for it had another byte."""

    def __init__(self, slots: int, device: torch.device) -> None:
        self._differ = torch.zeros(slots, dtype=torch.bool, device=device)

    def compare(self, slot: int, left: Tensor, right: Tensor) -> None:
        """Two tensors of one shape."""
        self._differ[slot] |= (bits(left) != bits(right)).any()

    def merge(self, slots: Tensor, differ: Tensor) -> None:
        """Flags of single rows, (n,), for their slots, (n,)."""
        counts = torch.zeros(self._differ.shape, dtype=torch.int32, device=differ.device)
        counts.index_add_(0, slots, differ.to(torch.int32))
        self._differ |= counts > 0

    def read(self) -> list[bool]:
        """Waits for the device."""
        flags: list[bool] = self._differ.tolist()
        return flags


class RowsOfWhole:
    """Compares outputs of many small calls with rows of one whole, many calls at once."""

    def __init__(self, whole: Sequence[Tensor], calls: int) -> None:
        self._whole = [bits(tensor) for tensor in whole]
        self._found = Differences(calls, whole[0].device)
        self._rows: list[Tensor] = []
        self._outputs: list[Sequence[Tensor]] = []
        self._slots: list[int] = []
        self._waiting = 0

    def add(self, slot: int, rows: Tensor, outputs: Sequence[Tensor]) -> None:
        """Row `i` of each output must be row `rows[i]` of the whole. `outputs` must stay as they are."""
        if len(outputs) != len(self._whole):
            raise ValueError(f"a call gave {len(outputs)} outputs, and the whole has {len(self._whole)}")
        if any(output.shape[0] != rows.shape[0] for output in outputs):
            raise ValueError(f"a call for {rows.shape[0]} positions gave {outputs[0].shape[0]} rows")
        self._rows.append(rows)
        self._outputs.append(outputs)
        self._slots.append(slot)
        self._waiting += rows.shape[0]
        if self._waiting >= ROWS_AT_ONCE or len(self._slots) >= CALLS_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        if not self._slots:
            return
        rows = torch.cat(self._rows)
        differ = torch.zeros(rows.shape, dtype=torch.bool, device=rows.device)
        for number, whole in enumerate(self._whole):
            output = torch.cat([bits(outputs[number]) for outputs in self._outputs])
            differ |= (output != whole.index_select(0, rows)).any(dim=1)
        lengths = torch.tensor([part.shape[0] for part in self._rows])
        slots = torch.tensor(self._slots).repeat_interleave(lengths)
        self._found.merge(slots.to(rows.device), differ)
        self._rows, self._outputs, self._slots, self._waiting = [], [], [], 0

    def read(self) -> list[bool]:
        """By slot. Waits for the device."""
        self._flush()
        return self._found.read()
