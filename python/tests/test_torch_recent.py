"""Calls like the last ones are launched again: the same bytes, and only where nothing has changed. CUDA tensors alone."""

import gc
import threading
from collections import UserList
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch_cases import ROWS, all_same_bytes, gathered, normal, packed, same_bytes, summed

import rowloom.torch as rt

f = rt.adaln_row_gather
RECENT = f._recent

S, H = 700, 24


class Asked:
    """How many calls were launched again since this was made: without a plan, and with one."""

    def __init__(self) -> None:
        self._before = (RECENT.hits, RECENT.planned_hits)

    def __call__(self) -> tuple[int, int]:
        return (RECENT.hits - self._before[0], RECENT.planned_hits - self._before[1])


def gradient_of(timestep: Tensor, modality: Tensor, cotangents: list[Tensor]) -> Tensor:
    row = (timestep.long() * 3 + modality.long()).cpu()
    return torch.cat([summed(x.cpu(), row, ROWS) for x in cotangents], dim=1)


def cotangents_of(dtype: torch.dtype = torch.float32) -> list[Tensor]:
    return [normal((S, H), "cuda", dtype, seed=seed) for seed in range(6)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("index", [torch.int64, torch.int32, torch.uint8], ids=str)
@pytest.mark.parametrize("explicit", [False, True], ids=["found", "given"])
def test_the_second_call_is_launched_again_with_the_same_bytes(
    cuda: str, dtype: torch.dtype, index: torch.dtype, explicit: bool
) -> None:
    table, timestep, modality = packed(S, H, cuda, dtype, index)
    plan = f.plan(timestep, modality, rows=ROWS) if explicit else None
    expected = gradient_of(timestep, modality, cotangents_of(dtype))
    asked = Asked()
    for call in range(4):
        other = (table * (call + 1)).detach().requires_grad_(call % 2 == 1)
        outputs = f(other, timestep, modality, plan=plan)
        assert all_same_bytes(outputs, gathered(other, timestep, modality))
        assert not any(x._is_view() for x in outputs)
        if call % 2:
            (gradient,) = torch.autograd.grad(outputs, other, cotangents_of(dtype))
            assert same_bytes(gradient, expected)
    assert asked() == ((0, 3) if explicit else (3, 0))


def test_large_results_keep_memory_of_their_own(cuda: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowloom.torch.declared.ONE_BUFFER_BYTES", 6 * S * H * 4 - 1)
    monkeypatch.setattr(f.declared, "_layouts", {})
    table, timestep, modality = packed(S, H, cuda)
    asked = Asked()
    for call in range(3):
        other = (table * (call + 1)).detach().requires_grad_(call == 2)
        outputs = f(other, timestep, modality)
        assert all_same_bytes(outputs, gathered(other, timestep, modality))
        assert len({x.untyped_storage().data_ptr() for x in outputs}) == 6
        assert not any(x._is_view() for x in outputs)
    (gradient,) = torch.autograd.grad(outputs, other, cotangents_of())
    assert same_bytes(gradient, gradient_of(timestep, modality, cotangents_of()))
    assert asked() == (2, 0)


Change = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]


def edited(table: Tensor, timestep: Tensor, modality: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    timestep.copy_(2 - timestep)
    return table, timestep, modality


def moved(table: Tensor, timestep: Tensor, modality: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    timestep.data = 2 - timestep
    return table, timestep, modality


def set_to_another(table: Tensor, timestep: Tensor, modality: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    modality.set_(2 - modality)  # type: ignore[call-overload]
    return table, timestep, modality


def shortened(table: Tensor, timestep: Tensor, modality: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    timestep.resize_(S - 1)
    return table, timestep, modality[:-1]


def another_object(table: Tensor, timestep: Tensor, modality: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return table, 2 - timestep, modality


def another_type(table: Tensor, timestep: Tensor, modality: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return table.bfloat16(), timestep, modality


def strided(table: Tensor, timestep: Tensor, modality: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return torch.cat([table, table], dim=1)[:, : 6 * H], timestep, modality


def misaligned(table: Tensor, timestep: Tensor, modality: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    wide = torch.zeros(ROWS * 6 * H + 1, device=table.device)
    return wide[1:].copy_(table.flatten()).view(ROWS, -1), timestep, modality


def expanded(table: Tensor, timestep: Tensor, modality: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return table[:1].expand(ROWS, -1), timestep, modality


@pytest.mark.parametrize(
    "change",
    [edited, moved, set_to_another, shortened, another_object, another_type, strided, misaligned, expanded],
    ids=lambda change: change.__name__,
)
def test_what_changed_is_seen(cuda: str, change: Change) -> None:
    arguments = packed(S, H, cuda)
    for _ in range(2):
        f(*arguments)
    arguments = change(*arguments)
    for _ in range(3):
        assert all_same_bytes(f(*arguments), gathered(*arguments))


def test_a_bad_index_is_found_after_an_edit(cuda: str) -> None:
    table, timestep, modality = packed(S, H, cuda)
    for _ in range(3):
        f(table, timestep, modality)
    timestep[5] = 3
    for _ in range(2):
        with pytest.raises(IndexError, match=r"timestep\[5\] is 3, but it must be in 0\.\.3"):
            f(table, timestep, modality)
    timestep[5] = 1
    assert all_same_bytes(f(table, timestep, modality), gathered(table, timestep, modality))


def test_modes_are_those_of_the_call(cuda: str) -> None:
    table, timestep, modality = packed(S, H, cuda)
    table.requires_grad_()
    expected = gathered(table.detach(), timestep, modality)
    for _ in range(3):
        assert f(table, timestep, modality)[0].requires_grad
        with torch.no_grad():
            assert not f(table, timestep, modality)[0].requires_grad
        with torch.inference_mode():
            outputs = f(table, timestep, modality)
            assert outputs[0].is_inference()
        assert all_same_bytes(outputs, expected)
        assert not f(table.detach(), timestep, modality)[0].requires_grad


def test_off_is_off(cuda: str) -> None:
    table, timestep, modality = packed(S, H, cuda)
    for _ in range(3):
        f(table, timestep, modality)
    asked = Asked()
    with rt.auto_plans(False):
        for _ in range(2):
            f(table, timestep, modality)
    rt.clear_plans()
    f(table, timestep, modality)
    assert asked() == (0, 0)


def test_an_edited_plan_is_refused_by_remembered_calls(cuda: str) -> None:
    table, timestep, modality = packed(S, H, cuda)
    table.requires_grad_()
    plan = f.plan(timestep, modality, rows=ROWS)
    for _ in range(3):
        outputs = f(table, timestep, modality, plan=plan)
    plan.state.zero_()
    with pytest.raises(ValueError, match="the state of a plan was edited"):
        torch.autograd.grad(outputs, table, cotangents_of())
    with pytest.raises(ValueError, match="the state of a plan was edited"):
        f(table, timestep, modality, plan=plan)


def test_other_sequences_of_plans_are_asked_each_time(cuda: str) -> None:
    table, timestep, modality = packed(S, H, cuda)
    plans = [f.plan(timestep, modality, rows=ROWS), f.plan(2 - timestep, modality, rows=ROWS)]
    for make in (list, UserList):
        given = make([plans[0]])
        for at in (0, 0, 1, 1):
            given[0] = plans[at]
            row = timestep if at == 0 else 2 - timestep
            assert all_same_bytes(f(table, timestep, modality, plan=given), gathered(table, row, modality))  # type: ignore[arg-type]


@pytest.mark.parametrize("lay", ["as they are", "transposed", "expanded", "missing", "strided"])
def test_cotangents_of_every_kind(cuda: str, lay: str) -> None:
    table, timestep, modality = packed(S, H, cuda)
    table.requires_grad_()
    cotangents = cotangents_of()
    given: list[Tensor | None] = list(cotangents)
    if lay == "transposed":
        given[2] = cotangents[2].t().contiguous().t()
    elif lay == "expanded":
        cotangents[2] = torch.full((S, H), 0.5, device=cuda)
        given[2] = torch.full((1, 1), 0.5, device=cuda).expand(S, H)
    elif lay == "missing":
        cotangents[2] = torch.zeros(S, H, device=cuda)
        given[2] = None
    elif lay == "strided":
        given[2] = torch.cat([cotangents[2]] * 2, dim=1)[:, :H]
    expected = gradient_of(timestep, modality, cotangents)
    for _ in range(3):
        outputs = f(table, timestep, modality)
        used = [at for at, x in enumerate(given) if x is not None]
        (gradient,) = torch.autograd.grad([outputs[at] for at in used], table, [given[at] for at in used])
        assert same_bytes(gradient, expected)


def test_a_backward_on_another_stream(cuda: str) -> None:
    table, timestep, modality = packed(S, H, cuda)
    plan = f.plan(timestep, modality, rows=ROWS)
    expected = gradient_of(timestep, modality, cotangents_of())
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    for _ in range(3):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            outputs = f(table, timestep, modality)
            (gradient,) = f.backward(cotangents_of(), table, timestep, modality, plan=plan)
        torch.cuda.current_stream().wait_stream(side)
        assert all_same_bytes(outputs, gathered(table, timestep, modality))
        assert same_bytes(gradient, expected)
    torch.cuda.synchronize()


def test_graphs_of_remembered_calls_with_a_plan(cuda: str) -> None:
    table, timestep, modality = packed(S, H, cuda)
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(side):
        plan = f.plan(timestep, modality, rows=ROWS)
        for _ in range(3):
            f(table, timestep, modality, plan=plan)
        asked = Asked()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            outputs = f(table, timestep, modality, plan=plan)
            with pytest.raises(RuntimeError, match="pass plan="):
                f(table, timestep, modality)
        assert asked() == (0, 1)
        table.neg_()
        graph.replay()
    side.synchronize()
    assert all_same_bytes(outputs, gathered(table, timestep, modality))


def test_a_double_derivative_is_refused(cuda: str) -> None:
    table, timestep, modality = packed(S, H, cuda)
    table.requires_grad_()
    for _ in range(3):
        outputs = f(table, timestep, modality)
        cotangents = [x.requires_grad_() for x in cotangents_of()]
        (gradient,) = torch.autograd.grad(outputs, table, cotangents, create_graph=True)
        with pytest.raises(RuntimeError, match="cannot be differentiated again"):
            gradient.sum().backward()


def test_threads_that_edit_never_see_old_plans(cuda: str) -> None:
    table, timestep, modality = packed(S, H, cuda)
    lock, wrong = threading.Lock(), []

    def work(seed: int) -> None:
        for at in range(40):
            with lock:
                if (at + seed) % 3 == 0:
                    timestep.copy_(2 - timestep)
                outputs = f(table, timestep, modality)
                if not all_same_bytes(outputs, gathered(table, timestep, modality)):
                    wrong.append((seed, at))
            f(table, timestep, modality)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_what_is_remembered_is_let_go(cuda: str) -> None:
    table, timestep, modality = packed(S, H, cuda)
    f(table, timestep, modality)
    torch.cuda.synchronize()
    rt.clear_plans()
    gc.collect()
    before = torch.cuda.memory_allocated()
    for _ in range(40):
        f(table, timestep.clone(), modality.clone())
    rt.clear_plans()
    gc.collect()
    assert torch.cuda.memory_allocated() == before


def test_a_hot_plan_outlives_cold_ones(cuda: str) -> None:
    table, timestep, modality = packed(S, H, cuda)
    f(table, timestep, modality)
    before = rt.plan_stats().misses
    for _ in range(100):
        f(table, timestep, modality)
        f(table, timestep.clone(), modality)
    assert rt.plan_stats().misses - before == 100, "one for each new index, none for the old one"
