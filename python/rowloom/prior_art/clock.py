"""How times are taken, in microseconds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol as Interface

import torch

Call = Callable[[], object]

Turn = Callable[[], AbstractContextManager[Call]]
"""Makes ready what is timed, outside of the time, and frees it at the end of the turn."""


class Clock(Interface):
    """Times one call."""

    def sample_us(self, call: Call) -> float:
        """The published way: an event, the call, another event, and a wait for it."""

    def wait(self) -> None:
        """Until everything queued is done."""


def timing_event() -> torch.cuda.Event:
    """An event whose time can be read."""
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


class GpuClock:
    """Times by events on the current stream."""

    def sample_us(self, call: Call) -> float:
        start, end = timing_event(), timing_event()
        start.record()
        call()
        end.record()
        end.synchronize()
        elapsed_ms: float = start.elapsed_time(end)
        return elapsed_ms * 1e3

    def wait(self) -> None:
        torch.cuda.synchronize()


class CpuClock:
    """Times by the clock of the host."""

    def sample_us(self, call: Call) -> float:
        start = time.perf_counter()
        call()
        return (time.perf_counter() - start) * 1e6

    def wait(self) -> None:
        """Calls on a CPU return when their work is done."""


def clock_of(device: torch.device) -> Clock:
    """The clock of a device."""
    return GpuClock() if device.type == "cuda" else CpuClock()


@dataclass(frozen=True)
class Rounds:
    """How the timed calls of several implementations take turns."""

    warm_up: int
    runs: int
    rounds: int
    settle: int = 0
    """Calls at the start of a turn that are not timed: what ran before has left caches and memory its own way."""
    budget_s: float | None = None
    """Seconds of one implementation, after which fewer calls are timed; None for no limit."""
    fewest: int = 3
    """Calls that are timed however long they take."""

    def order(self, names: Sequence[str], number: int) -> list[str]:
        """Who follows whom in one round: all as named, the first `number` of them behind the others."""
        first = number % len(names) if names else 0
        return [*names[first:], *names[:first]]


@dataclass
class Samples:
    """The timed calls of one implementation."""

    us: list[float]
    wanted: int
    failure: BaseException | None = None

    def median(self) -> float:
        return statistics.median(self.us)


def interleaved(
    turns: Mapping[str, Turn], rounds: Rounds, clock: Clock, tick: Callable[[int], None]
) -> dict[str, Samples]:
    """Times all implementations in turn, so that clocks and neighbours meet all alike.

    One that fails keeps its error, and the others go on.
    """
    results = {name: Samples([], rounds.runs) for name in turns}

    def attempt(name: str, work: Callable[[Call], None]) -> None:
        if results[name].failure is not None:
            return
        try:
            with turns[name]() as call:
                work(call)
        # Any error of another package, from any call of it, ends that implementation alone.
        except Exception as error:  # noqa: BLE001
            # Its frames would keep tensors alive.
            results[name].failure = error.with_traceback(None)

    for name in turns:
        attempt(name, lambda call, name=name: _warm(call, rounds, clock, results[name]))  # type: ignore[misc]
        tick(1)
    for number in range(rounds.rounds):
        for name in rounds.order(list(turns), number):
            attempt(name, lambda call, name=name: _take(call, number, rounds, clock, results[name]))  # type: ignore[misc]
            tick(1)
    return results


def _warm(call: Call, rounds: Rounds, clock: Clock, samples: Samples) -> None:
    start, done = time.perf_counter(), 0
    while done < rounds.warm_up:
        call()
        done += 1
        spent = time.perf_counter() - start
        if rounds.budget_s is not None and spent > rounds.budget_s / 6:
            affordable = int(rounds.budget_s / (spent / done))
            samples.wanted = max(min(rounds.fewest, rounds.runs), min(rounds.runs, affordable))
            break
    clock.wait()


def _take(call: Call, number: int, rounds: Rounds, clock: Clock, samples: Samples) -> None:
    # Whole runs for each round, which add up to all.
    count = samples.wanted * (number + 1) // rounds.rounds - samples.wanted * number // rounds.rounds
    if not count:
        return
    for _ in range(rounds.settle):
        call()
    clock.wait()
    samples.us.extend(clock.sample_us(call) for _ in range(count))


def host_us(call: Call, runs: int, at_once: int, clock: Clock) -> float:
    """Median time of the host for one call, up to `at_once` of them queued before anything waits."""
    times: list[float] = []
    call()
    while len(times) < runs:
        clock.wait()
        for _ in range(min(at_once, runs - len(times))):
            start = time.perf_counter()
            call()
            times.append((time.perf_counter() - start) * 1e6)
    clock.wait()
    return statistics.median(times)
