"""Time of the device alone: calls that wait behind a delay, so that the host's time is not in it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from rowloom.prior_art.clock import Call, timing_event

CALLS = 10
"""Calls behind one delay."""

DELAYS_CYCLES = (4_000_000, 16_000_000, 64_000_000)
"""Of the device's clock: about 2, 8 and 32 ms."""


@dataclass(frozen=True)
class Queued:
    """Time of one call."""

    us: float
    """Of the device: that of all calls behind a delay over their number."""
    host_us: float
    """Of the host, to queue one."""


def queued(call: Call, samples: int) -> Queued | None:
    """Medians; None for calls that wait for the device themselves: a delay is over before they return."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    for delay in DELAYS_CYCLES:
        found = _samples(call, samples, delay)
        if found is not None:
            return Queued(*(statistics.median(times) for times in zip(*found, strict=True)))
    return None


def _samples(call: Call, samples: int, delay: int) -> list[tuple[float, float]] | None:
    found = []
    for _ in range(samples):
        gate, end = timing_event(), timing_event()
        torch.cuda._sleep(delay)  # type: ignore[no-untyped-call]
        gate.record()
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        host = (time.perf_counter() - start) * 1e6 / CALLS
        end.record()
        # Where the delay is over already, the device may have waited for the host.
        was_behind = not gate.query()  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
        if not was_behind:
            return None
        found.append((gate.elapsed_time(end) * 1e3 / CALLS, host))
    return found


def behind_delay_us(call: Call, samples: int) -> float:
    """Median time from the end of a delay to an event recorded when a call that waits has returned.

    The call's launches wait behind the delay, so this is the device's time for them and what it takes
    to tell the host: a bound from above on the former.
    """
    times: list[float] = []
    for _ in range(samples):
        gate, end = timing_event(), timing_event()
        torch.cuda.synchronize()
        torch.cuda._sleep(DELAYS_CYCLES[0])  # type: ignore[no-untyped-call]
        gate.record()
        call()
        end.record()
        end.synchronize()
        times.append(gate.elapsed_time(end) * 1e3)
    return statistics.median(times)


def best_queued_us(calls: list[Callable[[], object]], samples: int) -> float | None:
    """The fastest of several ways to do the same; None where none could be queued in time."""
    found = [queued(call, samples) for call in calls]
    return min((result.us for result in found if result is not None), default=None)
