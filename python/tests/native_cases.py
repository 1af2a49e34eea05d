"""What tests of the native module share: its kernels, comparisons of bytes, inputs by seed."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from reference import rounded
from torch import Tensor

from rowloom import _native

KERNELS = {kernel.name: kernel for kernel in _native.kernels()}
ADALN, GATHER, SCATTER = KERNELS["adaln_row_gather"], KERNELS["row_gather"], KERNELS["row_scatter_sum"]

FLOATS = ["float32", "float16", "bfloat16"]
INTS = [torch.uint8, torch.int32, torch.int64]

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32}


def bits(tensor: Tensor) -> Tensor:
    return tensor.contiguous().view(_BITS[tensor.element_size()])


def assert_bits(found: Tensor, expected: Tensor) -> None:
    assert found.dtype == expected.dtype
    assert torch.equal(bits(found), bits(expected))


def tensor(values: NDArray[np.float32], dtype: str) -> Tensor:
    """Values that the type holds exactly."""
    result = torch.from_numpy(values).to(getattr(torch, dtype))
    assert torch.equal(result.float(), torch.from_numpy(values))
    return result


def random(seed: int, shape: tuple[int, ...], dtype: str) -> NDArray[np.float32]:
    return rounded(np.random.default_rng(seed).standard_normal(shape), dtype)


def indices(seed: int, positions: int, bound: int) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, bound, positions)


def plan_of(kernel: Any, expression: int, given: list[Tensor], rows: int) -> tuple[Tensor, Any]:
    positions = given[0].shape[0]
    state = torch.full((_native.plan_elements(positions, rows, kernel.block),), -1, dtype=torch.int32)
    return state, kernel.plan(0, expression, given, {"R": rows}, state)


def poisoned(*shape: int, dtype: str) -> Tensor:
    """What must be overwritten: every bit set."""
    element = getattr(torch, dtype)
    return torch.full(shape, -1, dtype=_BITS[element.itemsize]).view(element)
