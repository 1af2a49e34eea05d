"""What rowloom must give, written from docs/numerics.md in NumPy, and sharing no code with it.

Values travel as float32, which holds every float16 and bfloat16 exactly; bits are compared.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]

SIGNIFICANT_BITS = {"float32": 24, "float16": 11, "bfloat16": 8}
LOWEST_BIT = {"float32": -149, "float16": -24, "bfloat16": -133}


def rounded(values: Floats, dtype: str) -> NDArray[np.float32]:
    """Float64 or float32 values to the nearest of a type, ties to even; finite ones that do not overflow."""
    values = values.astype(np.float64)
    _, exponent = np.frexp(values)
    last_bit = np.maximum(exponent - SIGNIFICANT_BITS[dtype], LOWEST_BIT[dtype])
    result: NDArray[np.float32] = np.ldexp(np.rint(np.ldexp(values, -last_bit)), last_bit).astype(np.float32)
    return result


def ordered_sum(
    summands: NDArray[np.float32], rows: NDArray[np.integer[Any]], row_count: int, dtype: str, block: int, accumulate: str
) -> NDArray[np.float32]:
    """The segment sum of (S, H) summands: chains of `block` positions, folded from left to right, rounded once."""
    accumulator = np.dtype(accumulate)
    sums = np.zeros((row_count, summands.shape[1]), np.float32)
    for row in range(row_count):
        segment = summands[rows == row].astype(accumulator)
        total = np.zeros(summands.shape[1], accumulator)
        for start in range(0, len(segment), block):
            chain = np.zeros(summands.shape[1], accumulator)
            for summand in segment[start : start + block]:
                chain = chain + summand
            total = total + chain
        sums[row] = rounded(total, dtype)
    return sums


def adaln_rows(timestep: NDArray[Any], modality: NDArray[Any]) -> NDArray[np.int64]:
    """The table row of each position."""
    return timestep.astype(np.int64) * 3 + modality.astype(np.int64)


def chunks(table: NDArray[Any], rows: NDArray[np.int64], count: int) -> NDArray[Any]:
    """(count, S, H): chunk c of the row of each position."""
    positions = len(rows)
    return table[rows].reshape(positions, count, -1).transpose(1, 0, 2)
