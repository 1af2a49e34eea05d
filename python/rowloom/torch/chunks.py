"""The chunks of a modulation table as six tables, gathered together."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from rowloom import _native
from rowloom.torch import private
from rowloom.torch.autograd import RowsFunction
from rowloom.torch.eager import Call, Plans
from rowloom.torch.function import RowFunction
from rowloom.torch.modules import register
from rowloom.torch.signature import refuse_other_layouts
from rowloom.words import described

_gather: RowFunction = register(_native).adaln_row_gather

_NAMES = tuple(f"chunk {at}" for at in range(_gather.declared.chunks[0]))


def gather_chunks(
    chunks: Sequence[Tensor], timestep: Tensor, modality: Tensor, *, plan: Plans | None = None, check: Literal["now", "deferred"] = "now"
) -> tuple[Tensor, ...]:
    """`tuple(chunk.index_select(0, timestep * 3 + modality) for chunk in chunks)` for six chunks of (R, H), in one launch.

    Chunks that lie side by side in one buffer, such as `table.chunk(6, dim=1)`, are read where they are; others
    are put side by side first. Gradients arrive at each chunk. Arguments and errors are those of
    `adaln_row_gather`, and `ValueError` for chunks of different shapes, types or devices.
    """
    chunks = _checked(chunks)
    arguments = (*chunks, timestep, modality)
    if torch.compiler.is_compiling() or not _gather.is_eager(arguments):
        results: tuple[Tensor, ...] = _gather(torch.cat(chunks, dim=1), timestep, modality, plan=plan, check=check)
        return results
    refuse_other_layouts("gather_chunks", _gather.declared.names[1:], (timestep, modality))
    differentiated = torch.is_grad_enabled() and any([x.requires_grad for x in arguments])
    inputs = (_side_by_side(chunks), timestep, modality)
    call = _ChunksCall(_gather.declared, inputs, {}, plan, check, None, differentiated)
    if differentiated:
        gathered: tuple[Tensor, ...] = RowsFunction.apply(call, *arguments)  # type: ignore[no-untyped-call]
        return gathered
    return tuple(call.forward())


def _checked(chunks: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Six dense tables that are alike."""
    if isinstance(chunks, Tensor):
        raise TypeError(
            f"gather_chunks takes a sequence of {len(_NAMES)} tables, not a tensor; adaln_row_gather takes the whole one, and "
            f"table.chunk({len(_NAMES)}, dim=1) parts it"
        )
    if not hasattr(chunks, "__iter__"):
        raise TypeError(f"gather_chunks takes a sequence of {len(_NAMES)} tables, not {described(chunks)}")
    chunks = tuple(chunks)
    if len(chunks) != len(_NAMES):
        raise ValueError(f"gather_chunks takes {len(_NAMES)} chunks, not {len(chunks)}")
    for at, chunk in enumerate(chunks):
        if not isinstance(chunk, Tensor):
            raise TypeError(f"gather_chunks: chunk {at} is {described(chunk)}, not a tensor")
    refuse_other_layouts("gather_chunks", _NAMES, chunks)
    for at, chunk in enumerate(chunks):
        if chunk.dim() != 2:
            raise ValueError(f"gather_chunks: chunk {at} has {chunk.dim()} dimensions, not rows and columns")
        for what, found, first in (
            ("shape", tuple(chunk.shape), tuple(chunks[0].shape)),
            ("type", chunk.dtype, chunks[0].dtype),
            ("device", chunk.device, chunks[0].device),
        ):
            if found != first:
                raise ValueError(f"gather_chunks: chunk {at} has {what} {found}, chunk 0 has {first}")
    return chunks


class _ChunksCall(Call):
    """A call whose first input is made of several arguments."""

    __slots__ = ()

    def _chunks(self, of_arguments: int) -> int:
        return of_arguments - len(self.declared.names) + 1

    def inputs_of(self, arguments: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        count = self._chunks(len(arguments))
        chunks = [x for x in arguments[:count] if x is not None]
        return (_side_by_side(chunks) if len(chunks) == count else None, *arguments[count:])

    def wanted_of(self, needed: Sequence[bool]) -> tuple[bool, ...]:
        count = self._chunks(len(needed))
        return super().wanted_of((any(needed[:count]), *needed[count:]))

    def arguments_of(self, read: Sequence[bool]) -> Sequence[bool]:
        count = self.declared.chunks[0]
        return (*[read[0]] * count, *read[1:])

    def gradients_of(self, gradients: Sequence[Tensor | None], needed: Sequence[bool]) -> Sequence[Tensor | None]:
        count = self._chunks(len(needed))
        table = gradients[0]
        if table is None:
            return (*[None] * count, *gradients[1:])
        of_chunks = table.chunk(count, dim=1)
        return (*[x if need else None for x, need in zip(of_chunks, needed, strict=False)], *gradients[1:])


def _side_by_side(chunks: Sequence[Tensor]) -> Tensor:
    """One (R, 6·H) table of six (R, H): an alias where they lie so already, else a copy."""
    first = chunks[0].detach()
    if any([x.is_neg() for x in chunks]):
        # Memory holds the other sign of these.
        return torch.cat([x.detach() for x in chunks], dim=1)
    rows, columns = first.shape
    row_stride = first.stride(0)
    storage = private.storage_identity(first)
    here = first.storage_offset()
    for at, chunk in enumerate(chunks):
        if (
            private.storage_identity(chunk) != storage
            or chunk.storage_offset() != here + at * columns
            or (rows > 1 and chunk.stride(0) != row_stride)
            or (columns > 1 and chunk.stride(1) != 1)
        ):
            return torch.cat([x.detach() for x in chunks], dim=1)
    return first.as_strided((rows, len(chunks) * columns), (row_stride, 1), here)
