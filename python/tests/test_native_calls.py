"""Calls of the native module: plans, scratch memory, deferred errors, threads."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from native_cases import ADALN, GATHER, assert_bits, indices, plan_of, random, tensor
from reference import chunks

from rowloom import _native


def test_plans_do_not_follow_edits() -> None:
    timestep, modality = torch.tensor([0, 2, 1]), torch.tensor([2, 0, 1])
    plan = plan_of(ADALN, 0, [timestep, modality], 9)
    assert plan[1] == (3, 9, 256, 9, 0, 0)
    rows = timestep * 3 + modality
    timestep.fill_(100)
    table = torch.arange(9 * 12, dtype=torch.float32).reshape(9, 12)
    out = torch.empty(6, 3, 2)
    ADALN.forward(0, [table, timestep, modality], [out], [plan], "now", {})
    assert_bits(out, torch.from_numpy(np.ascontiguousarray(chunks(table.numpy(), rows.numpy(), 6))))


def test_repeated_plan() -> None:
    row = torch.from_numpy(indices(1, 300, 3)).to(torch.uint8)
    once = plan_of(GATHER, 0, [row], 4)
    state = torch.empty(_native.plan_elements(900, 4, 256), dtype=torch.int32)
    sizes = _native.repeat_plan(0, once, 3, state)
    again = plan_of(GATHER, 0, [row.repeat(3)], 4)
    assert sizes == again[1]
    cotangent = tensor(random(2, (900, 3), "float32"), "float32")
    gradients = []
    for plan in ((state, sizes), again):
        gradient = torch.empty(4, 3)
        GATHER.backward(0, [None, row.repeat(3)], [cotangent], [gradient, None], [plan], None)
        gradients.append(gradient)
    assert_bits(*gradients)


def test_scratch_is_asked_for_where_some_is_needed() -> None:
    def allocate(count: int) -> torch.Tensor:
        raise AssertionError(f"the CPU needs none, but {count} bytes were asked for")

    row = torch.tensor([1, 0], dtype=torch.uint8)
    plan = plan_of(GATHER, 0, [row], 2)
    gradient, cotangent = torch.empty(2, 3), torch.ones(2, 3)
    GATHER.backward(0, [None, row], [cotangent], [gradient, None], [plan], allocate)
    assert gradient.tolist() == [[1.0] * 3] * 2


def test_deferred_errors_belong_to_the_next_call() -> None:
    table, row = torch.ones(3, 2), torch.tensor([0, 3])
    out = torch.empty(2, 2)
    GATHER.forward(0, [table, row], [out], None, "deferred", {})
    with pytest.raises(IndexError, match=r"an earlier deferred call of row_gather: row\[1\] is not in 0\.\.3"):
        GATHER.forward(0, [table, torch.tensor([0, 1])], [out], None, "now", {})
    GATHER.forward(0, [table, row], [out], None, "deferred", {})
    with pytest.raises(IndexError, match="an earlier deferred call"):
        _native.synchronize(-1, 0)
    _native.synchronize(-1, 0)
    GATHER.forward(0, [table, torch.tensor([2, 1])], [out], None, "now", {})


def test_calls_leave_the_interpreter_to_others() -> None:
    """Threads that share kernels, plans and tables get their own results."""
    table = tensor(random(1, (9, 6 * 64), "float32"), "float32")
    given = [torch.from_numpy(indices(2, 2000, 3)), torch.from_numpy(indices(3, 2000, 3))]
    plan = plan_of(ADALN, 0, given, 9)
    expected = table[given[0] * 3 + given[1]].reshape(2000, 6, 64).transpose(0, 1)

    def one(_: int) -> bool:
        out = torch.empty(6, 2000, 64)
        ADALN.forward(0, [table, *given], [out], [plan], "now", {})
        return torch.equal(out, expected)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(one, range(16)))
