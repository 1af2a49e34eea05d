"""What only a GPU has: graphs, streams, an allocator under pressure, other devices, peaks of memory."""

import pytest
import torch
from torch import Tensor, nn
from torch_cases import ROWS, all_same_bytes, gathered, normal, packed, same_bytes

import rowloom.torch as rt

f = rt.adaln_row_gather


def test_a_graph_replays_forward_and_backward(cuda: str) -> None:
    table, timestep, modality = packed(3000, 64, cuda)
    cotangents = [normal((3000, 64), cuda, seed=seed) for seed in range(6)]
    plan = f.plan(timestep, modality, rows=ROWS)
    # Once before: code is loaded outside of a capture.
    f(table, timestep, modality, plan=plan)
    f.backward(cotangents, table, timestep, modality, plan=plan)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = f(table, timestep, modality, plan=plan)
        (gradient,) = f.backward(cotangents, table, timestep, modality, plan=plan)
    for seed in range(3):
        table.copy_(normal((ROWS, 6 * 64), seed=20 + seed))
        for at, cotangent in enumerate(cotangents):
            cotangent.copy_(normal((3000, 64), seed=30 + 10 * seed + at))
        graph.replay()
        torch.cuda.synchronize()
        assert all_same_bytes(outputs, gathered(table, timestep, modality))
        (expected,) = f.backward(cotangents, table, timestep, modality)
        assert same_bytes(gradient, expected)


def test_a_graph_replays_autograd(cuda: str) -> None:
    table, timestep, modality = packed(3000, 64, cuda)
    table.requires_grad_()
    plan = f.plan(timestep, modality, rows=ROWS)
    cotangents = [normal((3000, 64), cuda, seed=seed) for seed in range(6)]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            torch.autograd.grad(f(table, timestep, modality, plan=plan), table, cotangents)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = f(table, timestep, modality, plan=plan)
        (gradient,) = torch.autograd.grad(outputs, table, cotangents)
    for at, cotangent in enumerate(cotangents):
        cotangent.copy_(normal((3000, 64), seed=30 + at))
    graph.replay()
    torch.cuda.synchronize()
    (expected,) = f.backward(cotangents, table, timestep, modality)
    assert same_bytes(gradient, expected)


class Modulated(nn.Module):
    def __init__(self, plan: rt.RowPlan) -> None:
        super().__init__()
        self.table = nn.Parameter(normal((ROWS, 6 * 64)))
        self.plan = plan

    def forward(self, x: Tensor, timestep: Tensor, modality: Tensor) -> Tensor:
        shift, scale, gate, *_ = f(self.table, timestep, modality, plan=self.plan)
        return x + gate * (x * scale + shift)


def test_a_graphed_callable_trains(cuda: str) -> None:
    _, timestep, modality = packed(3000, 64, cuda)
    module = Modulated(f.plan(timestep, modality, rows=ROWS)).to(cuda)
    x, cotangent = normal((3000, 64), cuda, seed=4), normal((3000, 64), cuda, seed=5)
    expected = module(x, timestep, modality)
    expected.backward(cotangent)
    # A graph of autograd that lives on would tie the parameter to the stream that it ran on.
    expected = expected.detach()
    assert module.table.grad is not None
    gradient = module.table.grad.clone()
    module.table.grad = None
    graphed = torch.cuda.make_graphed_callables(module, (torch.zeros_like(x), timestep, modality))
    result = graphed(x, timestep, modality)
    result.backward(cotangent)
    assert same_bytes(result, expected)
    assert same_bytes(module.table.grad, gradient)


def test_a_sum_is_captured(cuda: str) -> None:
    rows, index = normal((4097, 5376), cuda), torch.randint(3, (4097,), device=cuda)
    total = rt.row_scatter_sum
    plan = total.plan(index, rows=3)
    for _ in range(3):
        expected = total(rows, index, R=3, plan=plan)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = total(rows, index, R=3, plan=plan)
    graph.replay()
    assert same_bytes(captured, expected)
    rows.neg_()
    graph.replay()
    assert same_bytes(captured, expected.neg())


@pytest.mark.parametrize("check", ["now", "deferred"])
def test_a_capture_refuses_an_automatic_plan(cuda: str, check: str) -> None:
    table, timestep, modality = packed(3000, 64, cuda)
    expected = gathered(table, timestep, modality)
    f(table, timestep, modality)
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match=r"pass plan=adaln_row_gather\.plan"), torch.cuda.graph(graph):
        f(table, timestep, modality, check=check)
    assert all_same_bytes(f(table, timestep, modality), expected)
    with rt.auto_plans(False), pytest.raises(RuntimeError), torch.cuda.graph(torch.cuda.CUDAGraph()):
        f(table, timestep, modality, check=check)
    assert all_same_bytes(f(table, timestep, modality), expected)
    with pytest.raises(RuntimeError), torch.cuda.graph(torch.cuda.CUDAGraph()):
        f.plan(timestep, modality, rows=ROWS)
    assert all_same_bytes(f(table, timestep, modality), expected)


def test_a_compiled_model_in_graphs(cuda: str) -> None:
    _, timestep, modality = packed(3000, 64, cuda)
    for plan in (f.plan(timestep, modality, rows=ROWS), None):
        module = Modulated(plan).to(cuda)  # type: ignore[arg-type]
        torch._dynamo.reset()
        compiled = torch.compile(module, mode="reduce-overhead", fullgraph=True)
        with torch.no_grad():
            for seed in range(5):
                x = normal((3000, 64), cuda, seed=seed)
                shift, scale, gate, *_ = gathered(module.table, timestep, modality)
                # Inductor contracts products and sums of its own; bytes of the op in compiled code: test_torch_compile.py.
                torch.testing.assert_close(compiled(x, timestep, modality), x + gate * (x * scale + shift))


def test_a_thousand_calls_on_two_streams_under_pressure(cuda: str) -> None:
    """The allocator gives memory again as soon as it may; results are kept only as sums."""
    layouts = [packed(2000 + 17 * at, 64, cuda, seed=at) for at in range(8)]
    expected = []
    for table, timestep, modality in layouts:
        results = gathered(table, timestep, modality)
        expected.append(torch.stack([x.double().sum() for x in results]))
    streams = [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    wrong = torch.zeros(2, dtype=torch.int64, device=cuda)
    for at in range(1000):
        stream = streams[at % 2]
        which = (at * 5) % len(layouts)
        with torch.cuda.stream(stream):
            table, timestep, modality = layouts[which]
            mine, indices = table.clone().requires_grad_(), (timestep.clone(), modality.clone())
            outputs = f(mine, *indices)
            del indices
            sums = torch.stack([x.detach().double().sum() for x in outputs])
            torch.autograd.backward(outputs, [torch.ones_like(x) for x in outputs])
            assert mine.grad is not None
            # Every position adds one to each column of its row.
            wrong[at % 2] += (sums != expected[which]).any() | (mine.grad.sum() != timestep.numel() * 6 * 64)
            del outputs, mine
        if at % 50 == 0:
            torch.cuda.empty_cache()
    torch.cuda.synchronize()
    assert wrong.tolist() == [0, 0]


@pytest.mark.parametrize(("accumulate", "limit"), [("float32", 80), ("float64", 136)])
def test_peak_memory_of_a_backward(cuda: str, accumulate: str, limit: int) -> None:
    """S = 131072, the published columns: plan and workspace within their bounds, beyond the gradient itself."""
    positions, columns = 131072, 5376
    function = f.with_order(accumulate=accumulate)
    _, timestep, modality = packed(positions, 1, cuda)
    table = torch.zeros(ROWS, 6 * columns, dtype=torch.bfloat16, device=cuda)
    cotangents = [torch.ones(positions, columns, dtype=torch.bfloat16, device=cuda) for _ in range(6)]
    function.backward(cotangents, table, timestep, modality)
    rt.clear_plans()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    (gradient,) = function.backward(cotangents, table, timestep, modality)
    torch.cuda.synchronize()
    extra = torch.cuda.max_memory_allocated() - before - gradient.nbytes
    assert 0 < extra < limit << 20, extra
    counts = torch.bincount(timestep * 3 + modality, minlength=ROWS)
    assert torch.equal(gradient[:, 0].float(), counts.to(torch.bfloat16).float())


def test_memory_that_torch_keeps_is_room_for_a_plan(cuda: str) -> None:
    """The allocator keeps all memory of the GPU, and uses none of it."""
    rows = 1 << 20
    row = torch.randint(rows, (1 << 26,), dtype=torch.int32, device=cuda)
    # Code is loaded before.
    rt.row_gather.plan(row[: 1 << 22], rows=rows)
    torch.cuda.empty_cache()
    taken, size, left = [], 1 << 30, 64 << 20
    while size >= left:
        if torch.cuda.mem_get_info()[0] < size + left:
            size //= 2
            continue
        taken.append(torch.empty(size, dtype=torch.uint8, device=cuda))
    del taken
    # Sorting takes four bytes a position, which are more than is left.
    plan = rt.row_gather.plan(row, rows=rows)
    torch.cuda.empty_cache()
    table = normal((rows, 1), cuda)
    assert torch.equal(rt.row_gather(table, row, plan=plan), table[row])


def test_slow_work_before_a_call_is_waited_for(cuda: str) -> None:
    table, timestep, modality = packed(3000, 64, cuda)
    late = torch.zeros_like(table)
    late_index = torch.zeros_like(timestep)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
        late.copy_(table)
        late_index.copy_(timestep)
        outputs = f(late, late_index, modality)
    side.synchronize()
    assert all_same_bytes(outputs, gathered(table, timestep, modality))


def test_the_device_of_the_tensors_counts_not_the_current_one(cuda: str) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("skipped: one CUDA device")
    table, timestep, modality = packed(3000, 64, "cuda:1")
    table.requires_grad_()
    with torch.cuda.device(0):
        outputs = f(table, timestep, modality)
        outputs[0].sum().backward()
        assert torch.cuda.current_device() == 0
    assert all(x.device.index == 1 for x in outputs)
    assert all_same_bytes(outputs, gathered(table, timestep, modality))


def test_a_hundred_runs_have_the_same_bytes(cuda: str) -> None:
    """5000 positions on one row."""
    table, timestep, modality = packed(5000, 64, cuda, torch.bfloat16)
    timestep.zero_()
    modality.zero_()
    cotangents = [normal((5000, 64), cuda, torch.bfloat16, seed) for seed in range(6)]
    (first,) = f.backward(cotangents, table, timestep, modality)
    for _ in range(100):
        (again,) = f.backward(cotangents, table, timestep, modality)
        assert same_bytes(again, first)


def test_offsets_beyond_two_to_the_32(cuda: str) -> None:
    """(6, S, H) of more than 2^32 elements, S·H of one tensor beyond 2^31: the last position equals its row."""
    positions, columns = 399_458, 5376
    if torch.cuda.mem_get_info()[0] < 40 << 30:
        pytest.skip("skipped: less than 40 GiB of free memory")
    table = normal((ROWS, 6 * columns), cuda, torch.bfloat16)
    _, timestep, modality = packed(positions, 1, cuda)
    outputs = f(table, timestep, modality)
    for at in (0, positions // 2, positions - 1):
        row = int(timestep[at]) * 3 + int(modality[at])
        for chunk, output in zip(table.chunk(6, dim=1), outputs, strict=True):
            assert same_bytes(output[at], chunk[row])


def test_lopsided_and_long(cuda: str) -> None:
    table, timestep, modality = packed(109_952, 64, cuda, torch.bfloat16)
    timestep.zero_()
    modality.zero_()
    modality[:890], modality[890:2096] = 1, 2
    timestep[890:2096] = 1
    cotangents = [normal((109_952, 64), cuda, torch.bfloat16, seed) for seed in range(6)]
    (found,) = f.backward(cotangents, table, timestep, modality)
    on_cpu = (x.cpu() for x in (table, timestep, modality))
    (expected,) = f.backward([x.cpu() for x in cotangents], *on_cpu)
    assert same_bytes(found, expected)
    unused = torch.ones(ROWS, dtype=torch.bool)
    unused[[0, 1, 5]] = False
    assert torch.count_nonzero(found.cpu()[unused].view(torch.int16)) == 0


def test_many_rows_and_grid_edges(cuda: str) -> None:
    for positions in (65535, 65536, 65537):
        table, timestep, modality = packed(positions, 8, cuda)
        assert all_same_bytes(f(table, timestep, modality), gathered(table, timestep, modality))
    many = normal((150_000, 8), cuda)
    row = torch.randperm(150_000, generator=torch.Generator().manual_seed(1)).to(cuda)[:100_000]
    assert same_bytes(rt.row_gather(many, row), many[row])
    cotangent = normal((100_000, 8), cuda)
    expected = torch.zeros_like(many)
    expected[row] = cotangent + 0.0
    (found,) = rt.row_gather.backward(cotangent, many, row)
    assert same_bytes(found, expected)
    wide = normal((65538, 8), cuda)
    last = torch.tensor([65537], device=cuda)
    assert same_bytes(rt.row_gather(wide, last), wide[last])
