"""Other threads than the caller's: the backward of a GPU runs on one of autograd's own, and programs have theirs."""

import threading
import time
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint
from torch_cases import ROWS, all_same_bytes, gathered, normal, packed, same_bytes, summed

import rowloom.torch as rt

f = rt.adaln_row_gather
RECENT = f._recent

S, H = 700, 24


def leaf(device: str) -> tuple[Tensor, Tensor, Tensor]:
    table, timestep, modality = packed(S, H, device)
    return table.requires_grad_(), timestep, modality


def cotangents_of(device: str) -> list[Tensor]:
    return [normal((S, H), device, seed=seed) for seed in range(6)]


def gradient_of(timestep: Tensor, modality: Tensor, cotangents: list[Tensor]) -> Tensor:
    row = (timestep.long() * 3 + modality.long()).cpu()
    return torch.cat([summed(x.cpu(), row, ROWS) for x in cotangents], dim=1)


@pytest.mark.parametrize("how", ["automatic", "planned", "deferred"])
@pytest.mark.parametrize("reentrant", [False, True], ids=["hooks", "reentrant"])
def test_a_checkpoint_computes_again_within_a_backward(device: str, how: str, reentrant: bool) -> None:
    table, timestep, modality = leaf(device)
    options: dict[str, Any] = {
        "automatic": {}, "planned": {"plan": f.plan(timestep, modality, rows=ROWS)}, "deferred": {"check": "deferred"},
    }[how]  # fmt: skip
    weights = cotangents_of(device)
    cotangent = normal((S, H), device, seed=9)
    expected = gradient_of(timestep, modality, [cotangent * weight for weight in weights])

    def region(table: Tensor) -> Tensor:
        outputs = f(table, timestep, modality, **options)
        return torch.stack([x * weight for x, weight in zip(outputs, weights, strict=True)])

    for _ in range(3):
        table.grad = None
        result: Any = checkpoint(region, table, use_reentrant=reentrant)
        result.backward(cotangent.expand(6, S, H))
        assert table.grad is not None
        assert same_bytes(table.grad, expected)


def test_calls_within_a_hook(device: str) -> None:
    table, timestep, modality = leaf(device)
    cotangents = cotangents_of(device)
    expected = gradient_of(timestep, modality, cotangents)
    found: list[Tensor] = []

    def hook(_: Tensor) -> None:
        with torch.enable_grad():
            mine = table.detach().requires_grad_()
            found.extend(torch.autograd.grad(f(mine, timestep, modality), mine, cotangents))

    table.register_hook(hook)
    for _ in range(3):
        found.extend(torch.autograd.grad(f(table, timestep, modality), table, cotangents))
    assert len(found) == 6
    assert all(same_bytes(gradient, expected) for gradient in found)


class Passing(TorchDispatchMode):
    """Sees every op, and changes none."""

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return op(*args, **(kwargs or {}))


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_every_backward_has_the_same_bytes(device: str) -> None:
    """Twice, on the caller's own thread, under a mode, while torch looks for NaN, along some of the results."""
    table, timestep, modality = leaf(device)
    cotangents = cotangents_of(device)
    expected = gradient_of(timestep, modality, cotangents)
    some = gradient_of(timestep, modality, [x if at == 1 else torch.zeros_like(x) for at, x in enumerate(cotangents)])
    for _ in range(3):
        outputs = f(table, timestep, modality)
        found = [torch.autograd.grad(outputs, table, cotangents, retain_graph=True)[0] for _ in range(2)]
        with torch.autograd.set_multithreading_enabled(False):
            found += torch.autograd.grad(outputs, table, cotangents, retain_graph=True)
        with Passing():
            found += torch.autograd.grad(outputs, table, cotangents, retain_graph=True)
        (one,) = torch.autograd.grad(outputs[1], table, cotangents[1])
        with torch.autograd.detect_anomaly(check_nan=True):
            found += torch.autograd.grad(f(table, timestep, modality), table, cotangents)
        assert all(same_bytes(gradient, expected) for gradient in found)
        assert same_bytes(one, some)


def test_threads_with_streams_of_their_own(cuda: str) -> None:
    cotangents = cotangents_of(cuda)
    layouts = [packed(S, H, cuda, seed=seed) for seed in range(3)]
    expected = [gradient_of(timestep, modality, cotangents) for _, timestep, modality in layouts]
    torch.cuda.synchronize()
    wrong: list[int] = []

    def work(at: int) -> None:
        table, timestep, modality = layouts[at]
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(20):
                mine = table.clone().requires_grad_()
                outputs = f(mine, timestep, modality)
                (gradient,) = torch.autograd.grad(outputs, mine, cotangents)
                if not (all_same_bytes(outputs, gathered(table, timestep, modality)) and same_bytes(gradient, expected[at])):
                    wrong.append(at)

    hits = RECENT.hits
    threads = [threading.Thread(target=work, args=(at,)) for at in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert RECENT.hits - hits == 3 * 19


@pytest.mark.parametrize("explicit", [False, True], ids=["found", "given"])
def test_a_backward_runs_on_the_stream_of_its_forward(cuda: str, explicit: bool) -> None:
    """Called on another one, while that one is slow; the plan is deleted at once."""
    table, timestep, modality = leaf(cuda)
    cotangents = cotangents_of(cuda)
    expected = gradient_of(timestep, modality, cotangents)
    side = torch.cuda.Stream()
    for _ in range(4):
        plan = f.plan(timestep, modality, rows=ROWS) if explicit else None
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)
            outputs = f(table, timestep, modality, plan=plan)
        (gradient,) = torch.autograd.grad(outputs, table, cotangents)
        # Whatever of it were free already would be overwritten now.
        del plan, outputs
        rt.clear_plans()
        taken = [torch.full((size,), -1, dtype=torch.int32, device=cuda) for size in (S, 2 * S, S * H) for _ in range(8)]
        torch.cuda.synchronize()
        assert same_bytes(gradient, expected)
        del taken


def test_a_graph_of_a_remembered_backward(cuda: str) -> None:
    """Captured on the stream that it ran on before, so that it is launched again."""
    table, timestep, modality = leaf(cuda)
    cotangents = cotangents_of(cuda)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        plan = f.plan(timestep, modality, rows=ROWS)
        for _ in range(3):
            torch.autograd.grad(f(table, timestep, modality, plan=plan), table, cotangents)
        hits = RECENT.planned_hits
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            outputs = f(table, timestep, modality, plan=plan)
            (gradient,) = torch.autograd.grad(outputs, table, cotangents)
        assert RECENT.planned_hits - hits == 1
        for seed in range(3):
            with torch.no_grad():
                table.copy_(normal((ROWS, 6 * H), seed=20 + seed))
                for at, cotangent in enumerate(cotangents):
                    cotangent.copy_(normal((S, H), seed=30 + 10 * seed + at))
            graph.replay()
            side.synchronize()
            assert all_same_bytes(outputs, gathered(table, timestep, modality))
            assert same_bytes(gradient, gradient_of(timestep, modality, cotangents))


def test_calls_on_another_device_than_the_current_one(cuda: str) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("skipped: one CUDA device")
    table, timestep, modality = leaf("cuda:1")
    cotangents = cotangents_of("cuda:1")
    expected = gradient_of(timestep, modality, cotangents)
    plan = f.plan(timestep, modality, rows=ROWS)
    torch.cuda.synchronize(1)
    side = torch.cuda.Stream(device=1)
    for stream in (torch.cuda.default_stream(1), side):
        with torch.cuda.stream(stream), torch.cuda.device(0):
            for given in (None, plan):
                for _ in range(3):
                    outputs = f(table, timestep, modality, plan=given)
                    (gradient,) = torch.autograd.grad(outputs, table, cotangents)
                    assert torch.cuda.current_device() == 0
                    stream.synchronize()
                    assert all_same_bytes(outputs, gathered(table, timestep, modality))
                    assert same_bytes(gradient, expected)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.device(1), torch.cuda.graph(graph, stream=side), torch.cuda.device(0):
        with pytest.raises(RuntimeError, match="pass plan="):
            f(table, timestep, modality)
        outputs = f(table, timestep, modality, plan=plan)
        (gradient,) = torch.autograd.grad(outputs, table, cotangents)
    with torch.no_grad():
        table.neg_()
    torch.cuda.synchronize(1)
    graph.replay()
    torch.cuda.synchronize(1)
    assert all_same_bytes(outputs, gathered(table, timestep, modality))
    assert same_bytes(gradient, expected)


def test_a_deferred_call_while_another_thread_waits_is_not_lost(cuda: str) -> None:
    table, row = normal((3, H), cuda), torch.tensor([0, 3], device=cuda)
    side = torch.cuda.Stream()
    right = row.clamp(max=2)
    torch.cuda.synchronize()
    found: list[IndexError] = []

    def wait() -> None:
        with torch.cuda.stream(side):
            try:
                rt.synchronize()
            except IndexError as error:
                found.append(error)

    with torch.cuda.stream(side):
        rt.row_gather(table, right, check="deferred")
        torch.cuda._sleep(400_000_000)
    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.05)
    with torch.cuda.stream(side):
        torch.cuda._sleep(400_000_000)
        rt.row_gather(table, row, check="deferred")
    thread.join()
    if not found:
        with torch.cuda.stream(side), pytest.raises(IndexError, match=r"row\[1\] is not in 0\.\.3"):
            rt.synchronize()
    with torch.cuda.stream(side):
        rt.synchronize()
