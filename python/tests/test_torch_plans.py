"""Automatic plans: what is found again, what is planned anew, and what never happens."""

import gc
import threading

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_cases import ROWS, all_same_bytes, gathered, normal, packed, same_bytes

import rowloom.torch as rt
from rowloom.torch import plans, row_plan

f = rt.adaln_row_gather


class Counted:
    """Hits and misses since it was made."""

    def __init__(self) -> None:
        self.before = rt.plan_stats()

    def __call__(self) -> tuple[int, int]:
        now = rt.plan_stats()
        return now.hits - self.before.hits, now.misses - self.before.misses


def right(table: Tensor, timestep: Tensor, modality: Tensor) -> bool:
    return all_same_bytes(f(table, timestep, modality), gathered(table, timestep, modality))


def test_one_layout_is_planned_once(device: str) -> None:
    table, timestep, modality = packed(300, 8, device)
    table.requires_grad_()
    counted = Counted()
    for _ in range(10):
        f(table, timestep, modality)[0].sum().backward()
    assert counted() == (9, 1)
    assert rt.plan_stats().entries == 1
    assert rt.plan_stats().bytes > 0


def test_an_edit_in_place_plans_anew(device: str) -> None:
    table, timestep, modality = packed(300, 8, device)
    counted = Counted()
    assert right(table, timestep, modality)
    timestep.add_(1).remainder_(3)
    assert right(table, timestep, modality)
    modality[5:].fill_(2)
    assert right(table, timestep, modality)
    assert counted() == (0, 3)


def test_views_of_one_storage_share_and_offsets_differ(device: str) -> None:
    table, timestep, modality = packed(300, 8, device)
    counted = Counted()
    assert right(table, timestep, modality)
    assert right(table, timestep.view(300), modality.detach())
    assert right(table, timestep[:], modality.view(3, 100).view(-1))
    assert counted() == (2, 1)
    assert right(table, timestep[:200], modality[:200])
    assert right(table, timestep[1:201], modality[:200])
    assert right(table, timestep[::2], modality[:150])
    assert counted() == (2, 4)
    both = torch.stack([timestep, modality], dim=1)
    assert right(table, both[:, 0], both[:, 1])
    assert right(table, both[:, 0], both[:, 1])
    both[0, 0] = (both[0, 0] + 1) % 3
    assert right(table, both[:, 0], both[:, 1])
    assert counted() == (3, 6)


def test_other_row_counts_and_functions_have_plans_of_their_own(device: str) -> None:
    table, timestep, modality = packed(300, 8, device)
    counted = Counted()
    assert right(table, timestep, modality)
    assert right(torch.cat([table, table]), timestep, modality)
    exact = f.with_order(accumulate="float64")
    assert exact is f.with_order(accumulate="float64")
    assert all_same_bytes(exact(table, timestep, modality), gathered(table, timestep, modality))
    assert counted() == (0, 3)


def test_an_address_that_comes_again_is_no_stale_plan(device: str) -> None:
    table, *_ = packed(1, 8, device)
    addresses = set()
    for seed in range(40):
        _, timestep, modality = packed(500, 8, device, seed=seed)
        addresses.add(timestep.data_ptr())
        assert right(table, timestep, modality)
        del timestep, modality
        if seed % 3 == 0:
            rt.clear_plans()
            gc.collect()
    assert len(addresses) < 40, "the allocator gave addresses again, or this tests nothing"


def test_memory_that_a_tensor_was_given_anew_is_no_stale_plan(device: str) -> None:
    table, timestep, modality = packed(500, 8, device)
    assert right(table, timestep, modality)
    for seed in range(1, 10):
        # The same object with other memory and no new version; what it had is kept by the plan alone.
        timestep.data = packed(500, 8, device, seed=seed)[1]
        assert right(table, timestep, modality)


def test_on_the_cpu_edits_behind_the_version_are_seen() -> None:
    table, timestep, modality = packed(300, 8)
    assert right(table, timestep, modality)
    version = timestep._version
    timestep.data.zero_()
    assert timestep._version == version
    assert right(table, timestep, modality)
    array = np.zeros(300, dtype=np.int64)
    shared = torch.from_numpy(array)
    assert right(table, shared, modality)
    array[:] = 2
    assert right(table, shared, modality)
    array[7] = 3
    with pytest.raises(IndexError, match=r"timestep\[7\] is 3"):
        f(table, shared, modality)


def test_the_cache_is_bounded_and_forgets_the_least_recent() -> None:
    cache = plans.PlanCache(entries=2)
    indices = [torch.full((4,), at) for at in range(3)]
    made = [rt.row_gather.plan(index, rows=3) for index in indices]
    for key in (0, 1):
        cache.keep(key, [indices[key]], made[key])
    assert cache.find(0, [indices[0]]) is made[0]
    cache.keep(2, [indices[2]], made[2])
    assert cache.find(1, [indices[1]]) is None
    assert cache.find(0, [indices[0]]) is made[0]
    assert cache.find(2, [indices[2]]) is made[2]
    stats = cache.stats()
    assert (stats.hits, stats.misses, stats.entries) == (3, 1, 2)
    one = stats.bytes // 2
    cache = plans.PlanCache(entries=100, limit=2 * one)
    for key in range(3):
        cache.keep(key, [indices[key]], made[key])
    assert cache.stats().entries == 2
    assert cache.stats().bytes <= 2 * one
    cache = plans.PlanCache(limit=one - 1)
    for key in (0, 1):
        cache.keep(key, [indices[key]], made[key])
        assert cache.stats() == (0, 0, 1, one), "the newest is kept whatever it takes"
    cache.clear()
    assert cache.stats() == (0, 0, 0, 0)


def test_plans_keep_whole_storages_and_count_them() -> None:
    table, timestep, modality = packed(300, 8)
    wide = torch.zeros(300, 1000, dtype=torch.int64)
    wide[:, 0] = timestep
    f(table, wide[:, 0], modality)
    assert rt.plan_stats().bytes > wide.nbytes
    rt.clear_plans()
    assert rt.plan_stats().bytes == 0


def test_many_layouts_stay_within_the_bounds(device: str) -> None:
    table, timestep, modality = packed(300, 8, device)
    for at in range(plans.ENTRIES + 20):
        assert right(table, timestep[: 100 + at], modality[: 100 + at])
    assert rt.plan_stats().entries == plans.ENTRIES


def test_automatic_plans_can_be_off(device: str) -> None:
    table, timestep, modality = packed(300, 8, device)
    counted = Counted()
    with rt.auto_plans(False):
        assert right(table, timestep, modality)
        with rt.auto_plans(True):
            assert right(table, timestep, modality)
        assert right(table, timestep, modality)
    assert counted() == (0, 1)
    rt.auto_plans(False)
    assert right(table, timestep, modality)
    rt.auto_plans(True)
    assert right(table, timestep, modality)
    assert counted() == (1, 1)


def test_room_is_made_on_a_gpu_alone_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    given_back: list[int] = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: given_back.append(1))

    def call(failures: int, device: str) -> int:
        calls: list[int] = []

        def take() -> int:
            calls.append(1)
            if len(calls) <= failures:
                raise MemoryError("none is there")
            return len(calls)

        return row_plan.with_room(torch.device(device), take)

    assert [call(0, "cuda"), call(0, "cpu")] == [1, 1]
    assert given_back == []
    assert call(1, "cuda") == 2
    assert given_back == [1]
    for failures, device in ((2, "cuda"), (1, "cpu")):
        with pytest.raises(MemoryError, match="none is there"):
            call(failures, device)


def test_blocks_of_two_threads_may_end_in_any_order() -> None:
    for ended in ((0, 1), (1, 0)):
        blocks = [rt.auto_plans(False), rt.auto_plans(False)]
        assert not plans.setting.enabled
        blocks[ended[0]].__exit__()
        assert not plans.setting.enabled, "the other block goes on"
        blocks[ended[1]].__exit__()
        assert plans.setting.enabled, "as before both"


@pytest.mark.parametrize(("value", "enabled"), [(None, True), ("", True), ("on", True), ("off", False)])
def test_the_flag_of_the_environment(value: str | None, enabled: bool) -> None:
    assert plans._from_environment(value) is enabled


def test_a_misspelt_flag_is_an_error() -> None:
    with pytest.raises(ValueError, match="ROWLOOM_AUTO_PLANS is 'of'; it may be on or off"):
        plans._from_environment("of")


def test_deferred_calls_use_plans_and_make_none(device: str) -> None:
    table, timestep, modality = packed(300, 8, device)
    expected = gathered(table, timestep, modality)
    counted = Counted()
    assert all_same_bytes(f(table, timestep, modality, check="deferred"), expected)
    assert rt.plan_stats().entries == 0
    f(table, timestep, modality)
    assert all_same_bytes(f(table, timestep, modality, check="deferred"), expected)
    assert counted() == (1, 2)
    rt.synchronize()


def test_a_plan_does_not_change_with_its_indices(device: str) -> None:
    table, timestep, modality = packed(300, 8, device)
    expected = gathered(table, timestep, modality)
    plan = f.plan(timestep, modality, rows=ROWS)
    timestep.zero_()
    assert all_same_bytes(f(table, timestep, modality, plan=plan), expected)


def test_threads_share_the_cache(device: str) -> None:
    table, timestep, modality = packed(300, 8, device)
    layouts = [(timestep.roll(at), modality.roll(2 * at)) for at in range(8)]
    cotangents = [normal((300, 8), device, seed=seed) for seed in range(6)]
    expected = [f.backward(cotangents, table, *layout)[0] for layout in layouts]
    rt.clear_plans()
    counted = Counted()
    wrong: list[int] = []
    rounds, threads = 30, 4

    def work(first: int) -> None:
        for at in range(rounds):
            which = (first + at) % len(layouts)
            mine = table.clone().requires_grad_()
            (gradient,) = torch.autograd.grad(f(mine, *layouts[which]), mine, cotangents)
            if not same_bytes(gradient, expected[which]):
                wrong.append(which)

    running = [threading.Thread(target=work, args=(at,)) for at in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert wrong == []
    hits, misses = counted()
    assert hits + misses == rounds * threads
    assert rt.plan_stats().entries == len(layouts)


def test_two_streams_have_plans_of_their_own(cuda: str) -> None:
    table, timestep, modality = packed(3000, 64, cuda)
    expected = gathered(table, timestep, modality)
    counted = Counted()
    streams = [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    for _ in range(50):
        for stream in streams:
            with torch.cuda.stream(stream):
                outputs = f(table, timestep, modality)
            stream.synchronize()
            assert all_same_bytes(outputs, expected)
    assert counted() == (98, 2)


def test_a_plan_used_on_another_stream_is_not_freed_under_it(cuda: str) -> None:
    table, timestep, modality = packed(50_000, 256, cuda)
    expected = gathered(table, timestep, modality)
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    for _ in range(50):
        plan = f.plan(timestep, modality, rows=ROWS)
        size = plan.state.numel()
        with torch.cuda.stream(side):
            torch.cuda._sleep(2_000_000)
            outputs = f(table, timestep, modality, plan=plan)
        del plan
        # Would be the plan's memory, were it free already.
        taken = [torch.full((size,), -1, dtype=torch.int32, device=cuda) for _ in range(4)]
        side.synchronize()
        assert all_same_bytes(outputs, expected)
        del taken


def test_one_plan_serves_two_threads_on_two_streams(device: str) -> None:
    table, timestep, modality = packed(3000, 64, device)
    plan = f.plan(timestep, modality, rows=ROWS)
    cotangents = [normal((3000, 64), device, seed=seed) for seed in range(6)]
    (expected,) = f.backward(cotangents, table, timestep, modality, plan=plan)
    streams = [torch.cuda.Stream() if device == "cuda" else None for _ in range(2)]
    if device == "cuda":
        torch.cuda.synchronize()
    wrong: list[int] = []

    def work(at: int) -> None:
        with torch.cuda.stream(streams[at]):
            for _ in range(30):
                mine = table.clone().requires_grad_()
                (gradient,) = torch.autograd.grad(f(mine, timestep, modality, plan=plan), mine, cotangents)
                if not same_bytes(gradient, expected):
                    wrong.append(at)

    running = [threading.Thread(target=work, args=(at,)) for at in range(2)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert wrong == []


def test_what_no_version_shows_on_a_gpu_is_as_documented(cuda: str) -> None:
    table, timestep, modality = packed(300, 8, cuda)
    before = gathered(table, timestep, modality)
    f(table, timestep, modality)
    timestep.data.zero_()
    assert all_same_bytes(f(table, timestep, modality), before), "docs/python.md says that .data is not seen"
    rt.clear_plans()
    assert right(table, timestep, modality)


def test_a_storage_counts_once_and_the_newest_plan_is_kept(device: str) -> None:
    large = torch.zeros(40 << 20, dtype=torch.int64, device=device)
    assert large.nbytes > 256 << 20
    table = normal((3, 8), device)
    before = rt.plan_stats()
    for _ in range(4):
        rt.row_gather(table, large[:100])
    after = rt.plan_stats()
    assert (after.misses - before.misses, after.entries) == (1, 1)
    assert large.nbytes < after.bytes < large.nbytes + 10_000
    small = torch.zeros(20 << 20, dtype=torch.uint8, device=device)
    rt.clear_plans()
    before = rt.plan_stats()
    for _ in range(3):
        for at in range(10):
            rt.row_gather(table, small[at * 100 : at * 100 + 100])
    after = rt.plan_stats()
    assert (after.misses - before.misses, after.entries) == (10, 10)
    assert small.nbytes < after.bytes < small.nbytes + 100_000
