"""Who is timed when, on which clock."""

import contextlib
from collections.abc import Iterator

import pytest
import torch
from prior_art_case import CASE, TINY, right
from rowloom.prior_art import latency, queued
from rowloom.prior_art.clock import Rounds, interleaved


class FakeClock:
    """Counts; a call's time is what it returns."""

    def __init__(self):
        self.waits = 0

    def sample_us(self, call):
        return float(call())

    def wait(self):
        self.waits += 1


def turns(log, **times):
    def turn_of(name, us):
        @contextlib.contextmanager
        def turn() -> Iterator:
            def call():
                log.append(name)
                if us is None:
                    raise RuntimeError("broken")
                return us

            yield call

        return turn

    return {name: turn_of(name, us) for name, us in times.items()}


def test_turns_are_taken_in_rotating_order_and_all_are_counted():
    log = []
    rounds = Rounds(warm_up=2, runs=6, rounds=3, settle=1)
    ticks = []
    found = interleaved(turns(log, a=1.0, b=2.0, c=3.0), rounds, FakeClock(), ticks.append)
    warm, timed = log[:6], log[6:]
    assert warm == ["a", "a", "b", "b", "c", "c"]
    # One call that settles, two that are timed.
    assert timed[::3] == ["a", "b", "c", "b", "c", "a", "c", "a", "b"]
    assert len(timed) == 3 * 3 * 3
    assert {name: samples.us for name, samples in found.items()} == {"a": [1.0] * 6, "b": [2.0] * 6, "c": [3.0] * 6}
    assert sum(ticks) == 3 * (1 + 3)


def test_runs_that_rounds_do_not_divide_are_all_taken():
    found = interleaved(turns([], a=1.0), Rounds(0, 100, 7), FakeClock(), lambda _: None)
    assert len(found["a"].us) == 100


def test_one_that_breaks_ends_alone_and_keeps_its_error():
    log = []
    found = interleaved(turns(log, a=None, b=2.0), Rounds(1, 4, 2), FakeClock(), lambda _: None)
    assert str(found["a"].failure) == "broken"
    assert found["b"].us == [2.0] * 4
    assert log.count("a") == 1


def test_a_budget_leaves_fewer_runs_and_says_so():
    slow = Rounds(warm_up=5, runs=50, rounds=5, budget_s=1e-9)
    found = interleaved(turns([], a=1.0), slow, FakeClock(), lambda _: None)
    assert len(found["a"].us) == slow.fewest


class FakeEvent:
    """An event of a device that works for 5 ms on each delay and for nothing else."""

    now_ms = 0.0
    late = False

    def record(self):
        self.at = FakeEvent.now_ms
        FakeEvent.now_ms += 1.0

    def query(self):
        return FakeEvent.late

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        return end.at - self.at


@pytest.fixture
def fake_gpu(monkeypatch):
    """torch.cuda as far as times need it, over CPU tensors."""
    monkeypatch.setattr(queued, "timing_event", FakeEvent)
    monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: None)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 1000)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 10_000_000)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: None)
    FakeEvent.late = False


def test_queued_calls_share_the_time_behind_the_delay(fake_gpu):
    found = queued.queued(lambda: None, samples=3)
    assert found.us == pytest.approx(1e3 / queued.CALLS)
    assert found.host_us > 0.0


def test_calls_that_wait_have_no_time_of_the_device_alone(fake_gpu):
    FakeEvent.late = True
    assert queued.queued(lambda: None, samples=3) is None


def test_keys_of_a_gpu_are_filled(fake_gpu):
    batch, gradients = CASE.batch(40, 11), CASE.gradients(40, 9)
    implementation = right()
    times = {**latency.EMPTY, "fwd_us": 300.0}
    latency.device_times(implementation, implementation.run, batch, gradients, TINY, times)
    moved = 40 * CASE.bytes_per_position()
    assert times["kernel_us"] == {"forward": 100.0, "backward": 100.0}
    assert times["fwd_over_kernel_us"] == 200.0
    assert times["peak_extra_bytes"]["forward"] == 10_000_000 - 1000 - moved
    assert times["peak_extra_bytes"]["backward"] == 10_000_000 - 1000 - moved - batch.table.numel() * 2
    assert times["host_us"]["fwd"] > 0.0
    assert times["host_us"]["fwd_planned"] is None
    assert times["plan_us"] is None
