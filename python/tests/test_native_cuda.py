"""The native module over CUDA tensors: the CPU's bytes, on the caller's stream, in graphs; errors leave the device usable."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from conftest import require_gpu
from torch import Tensor

from rowloom import _native

KERNELS = {kernel.name: kernel for kernel in _native.kernels()}
ADALN, GATHER, SCATTER = KERNELS["adaln_row_gather"], KERNELS["row_gather"], KERNELS["row_scatter_sum"]

S, R, H = 1500, 9, 24


def stream() -> int:
    return int(torch.cuda.current_stream().cuda_stream)


def packing(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    """On the CPU: a table and indices."""
    generator = torch.Generator().manual_seed(7)
    table = torch.randn(R, 6 * H, generator=generator).to(dtype)
    indices = [torch.randint(0, 3, (S,), generator=generator) for _ in range(2)]
    return table, indices[0], indices[1]


def plan_of(kernel: Any, expression: int, indices: list[Tensor], rows: int, raw: int) -> tuple[Tensor, Any]:
    state = indices[0].new_empty(_native.plan_elements(len(indices[0]), rows, kernel.block), dtype=torch.int32)
    return state, kernel.plan(raw, expression, indices, {"R": rows}, state)


def both(kernel: Any, device: str, dtype: torch.dtype, planned: bool) -> list[Tensor]:
    """Results of a forward and of backwards, as on the CPU."""
    raw = stream() if device == "cuda" else 0
    table, timestep, modality = (x.to(device) for x in packing(dtype))
    plans = [plan_of(kernel, 0, [timestep, modality], R, raw)] if planned else None
    out = torch.empty(6, S, H, dtype=dtype, device=device)
    kernel.forward(raw, [table, timestep, modality], [out], plans, "now", {})
    results = [out]
    for stored in {dtype, torch.float32}:
        gradient = torch.empty(R, 6 * H, dtype=stored, device=device)
        arguments = ([None, timestep, modality], list(out), [gradient, None, None])
        asked: list[int] = []

        def allocate(count: int, asked: list[int] = asked) -> Tensor:
            asked.append(count)
            return torch.full((count,), 0xFF, dtype=torch.uint8, device=device)

        kernel.backward(raw, *arguments, plans, allocate if planned else None)
        assert not asked or (planned and device != "cpu")
        results.append(gradient)
    return [x.cpu() for x in results]


def bits(tensor: Tensor) -> Tensor:
    return tensor.view({2: torch.int16, 4: torch.int32}[tensor.element_size()])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("accumulate", ["float32", "float64"])
@pytest.mark.parametrize("planned", [True, False])
def test_the_bytes_are_those_of_the_cpu(cuda: str, dtype: torch.dtype, accumulate: str, planned: bool) -> None:
    kernel = ADALN.with_order(accumulate=accumulate)
    for found, expected in zip(both(kernel, cuda, dtype, planned), both(kernel, "cpu", dtype, planned), strict=True):
        assert torch.equal(bits(found), bits(expected))


def test_sums_as_a_forward(cuda: str) -> None:
    rows, row = torch.randn(S, H), torch.randint(0, 4, (S,), dtype=torch.int32)
    results = []
    for device in ("cpu", cuda):
        out = torch.empty(5, H, device=device)
        SCATTER.forward(stream(), [rows.to(device), row.to(device)], [out], None, "now", {"R": 5})
        results.append(out.cpu())
    assert torch.equal(bits(results[0]), bits(results[1]))


def test_repeated_plans(cuda: str) -> None:
    row = torch.randint(0, 4, (300,), device=cuda)
    state, sizes = plan_of(GATHER, 0, [row], 4, stream())
    twice = torch.empty(_native.plan_elements(600, 4, 256), dtype=torch.int32, device=cuda)
    again = _native.repeat_plan(stream(), (state, sizes), 2, twice)
    table, out = torch.randn(4, H, device=cuda), torch.empty(600, H, device=cuda)
    GATHER.forward(stream(), [table, row.repeat(2)], [out], [(twice, again)], "now", {})
    assert torch.equal(out, table[row.repeat(2)])


def test_rows_of_outputs_may_interleave(cuda: str) -> None:
    table, timestep, modality = (x.to(cuda) for x in packing())
    out = torch.empty(S, 6, H, device=cuda).transpose(0, 1)
    ADALN.forward(stream(), [table, timestep, modality], [out], None, "now", {})
    assert torch.equal(out, table[timestep * 3 + modality].reshape(S, 6, H).transpose(0, 1))


def test_errors_leave_the_device_usable(cuda: str) -> None:
    table, row, out = torch.randn(3, H, device=cuda), torch.tensor([0, 2, 1], device=cuda), torch.empty(3, H, device=cuda)
    plan = plan_of(GATHER, 0, [row], 3, stream())
    bad = torch.tensor([0, 3, -1], device=cuda)
    refused: list[tuple[Any, type[Exception], str]] = [
        (
            lambda: GATHER.forward(stream(), [table, bad], [out], None, "now", {}),
            IndexError,
            r"row\[1\] is 3, but it must be in 0\.\.3",
        ),
        (lambda: plan_of(GATHER, 0, [bad], 3, stream()), IndexError, r"row\[1\] is 3, but it must be in 0\.\.3"),
        (
            lambda: GATHER.forward(stream(), [table, row.cpu()], [out], None, "now", {}),
            ValueError,
            "row is on cpu, but the call runs on cuda:0: table is there",
        ),
        (
            lambda: GATHER.forward(0, [table.cpu(), row.cpu()], [out], None, "now", {}),
            ValueError,
            "out is on cuda:0, but the call runs on cpu: table is there",
        ),
        (
            lambda: GATHER.forward(stream(), [table, row], [out], [(plan[0].cpu(), plan[1])], "now", {}),
            ValueError,
            "the state of the plan is on cpu, but the call runs on cuda:0",
        ),
        (lambda: GATHER.forward(2, [table, row], [out], None, "now", {}), ValueError, "CU_STREAM_PER_THREAD"),
    ]
    for call, kind, sentence in refused:
        with pytest.raises(kind, match=sentence):
            call()
        GATHER.forward(stream(), [table, row], [out], None, "now", {})
        assert torch.equal(out, table[row])


def test_deferred_errors_belong_to_the_stream(cuda: str) -> None:
    table, row, out = torch.randn(3, H, device=cuda), torch.tensor([0, 2, 3], device=cuda), torch.empty(3, H, device=cuda)
    ordinal = table.get_device()
    GATHER.forward(stream(), [table, row], [out], None, "deferred", {})
    with pytest.raises(IndexError, match=r"an earlier deferred call of row_gather: row\[2\] is not in 0\.\.3"):
        _native.synchronize(ordinal, stream())
    _native.synchronize(ordinal, stream())
    GATHER.forward(stream(), [table, row], [out], None, "deferred", {})
    torch.cuda.synchronize()
    with pytest.raises(IndexError, match="an earlier deferred call"):
        GATHER.forward(stream(), [table, row.clamp(max=2)], [out], None, "now", {})
    GATHER.forward(stream(), [table, row.clamp(max=2)], [out], None, "deferred", {})
    _native.synchronize(ordinal, stream())
    assert torch.equal(out, table[row.clamp(max=2)])


def test_scratch_that_does_not_fit(cuda: str) -> None:
    # Sums of many columns over long rows go from block to block.
    positions, columns = 4097, 5376
    timestep, modality = (torch.randint(3, (positions,), device=cuda) for _ in range(2))
    plan = plan_of(ADALN, 0, [timestep, modality], R, stream())
    gradient, cotangent = torch.empty(R, 6 * columns, device=cuda), torch.randn(positions, columns, device=cuda)
    arguments = ([None, timestep, modality], [cotangent] * 6, [gradient, None, None], [plan])

    def scratch(count: int) -> Tensor:
        return torch.empty(count, dtype=torch.uint8, device=cuda)

    refused: list[tuple[Callable[[int], object], type[Exception], str]] = [
        (lambda count: scratch(count - 1), ValueError, r"needs a workspace of \d+ bytes, but this one has \d+"),
        (lambda count: scratch(count + 1)[1:], ValueError, "the workspace begins at .*, but must begin at a multiple of 256 bytes"),
        (lambda count: scratch(2 * count)[::2], ValueError, "the workspace has a column stride of 2"),
        (lambda count: scratch(2 * count).view(count, 2), ValueError, "the workspace has 2 columns, but must have 1"),
        (lambda count: scratch(count).cpu(), ValueError, "the workspace is on cpu, but the call runs on cuda:0"),
        (lambda count: torch.empty(count, device=cuda), TypeError, "the workspace holds f32, but must hold u8"),
        (lambda count: None, TypeError, "the workspace is of type NoneType"),
    ]
    for allocate, kind, sentence in refused:
        with pytest.raises(kind, match=sentence):
            ADALN.backward(stream(), *arguments, allocate)
    ADALN.backward(stream(), *arguments, scratch)


def test_work_is_on_the_callers_stream(cuda: str) -> None:
    table, timestep, modality = (x.to(cuda) for x in packing())
    out = torch.empty(6, S, H, device=cuda)
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        late = torch.zeros_like(table)
        torch.cuda._sleep(100_000_000)  # type: ignore[no-untyped-call]
        late.copy_(table)
        ADALN.forward(stream(), [late, timestep, modality], [out], None, "deferred", {})
    side.synchronize()
    assert torch.equal(out, table[timestep * 3 + modality].reshape(S, 6, H).transpose(0, 1))


def test_a_planned_call_is_captured(cuda: str) -> None:
    table, timestep, modality = (x.to(cuda) for x in packing())
    plan = plan_of(ADALN, 0, [timestep, modality], R, stream())
    out, gradient = torch.empty(6, S, H, device=cuda), torch.empty(R, 6 * H, device=cuda)
    arguments = ([None, timestep, modality], list(out), [gradient, None, None])

    def allocate(count: int) -> Tensor:
        return torch.empty(count, dtype=torch.uint8, device=cuda)

    def step() -> None:
        ADALN.forward(stream(), [table, timestep, modality], [out], [plan], "now", {})
        ADALN.backward(stream(), *arguments, [plan], allocate)

    step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
        with pytest.raises(RuntimeError, match="checking the indices of adaln_row_gather is not possible"):
            ADALN.forward(stream(), [table, timestep, modality], [out], None, "now", {})
    table.normal_()
    out.zero_()
    gradient.zero_()
    graph.replay()
    captured = out.clone(), gradient.clone()
    step()
    assert torch.equal(captured[0], table[timestep * 3 + modality].reshape(S, 6, H).transpose(0, 1))
    assert torch.equal(bits(captured[1]), bits(gradient))


def test_the_tensors_device_and_not_the_current_one() -> None:
    require_gpu()
    if torch.cuda.device_count() < 2:
        print("skipped: no second CUDA device")
        pytest.skip("skipped: no second CUDA device")
    table, out = torch.randn(3, H, device="cuda:1"), torch.empty(2, H, device="cuda:1")
    row = torch.tensor([0, 2], device="cuda:1")
    raw = int(torch.cuda.current_stream(1).cuda_stream)
    GATHER.forward(raw, [table, row], [out], None, "now", {})
    assert torch.cuda.current_device() == 0
    assert torch.equal(out, table[row])
    with pytest.raises(ValueError, match="row is on cuda:0, but the call runs on cuda:1: table is there"):
        GATHER.forward(raw, [table, row.to("cuda:0")], [out], None, "now", {})
