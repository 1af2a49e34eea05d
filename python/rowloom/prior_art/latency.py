"""Times and memory of all implementations at one S, in the keys of the schema."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from rowloom.prior_art import steps
from rowloom.prior_art.clock import Rounds, Samples, Turn, clock_of, host_us, interleaved
from rowloom.prior_art.implementations import Implementation, Planned, Run
from rowloom.prior_art.inputs import Batch, Case
from rowloom.prior_art.memory import peak_extra_bytes
from rowloom.prior_art.protocol import Protocol
from rowloom.prior_art.queued import behind_delay_us, queued

SETTLE_CALLS = 5
"""At the start of each turn on a GPU, not timed."""

HOST_CALLS = {"fwd": 20, "fwd_bwd": 5}
"""Calls that are queued before anything waits: few enough that no queue is full."""

CPU_BUDGET_S = 10.0
QUICK_CPU_BUDGET_S = 0.8
"""Of one timed call of one implementation on a CPU, all its runs together."""

STEPS = {"fwd_us": steps.forward, "fwd_bwd_us": steps.published_step, "bwd_us": steps.backward}

EMPTY: dict[str, Any] = dict.fromkeys(
    (
        *("fwd_us", "fwd_bwd_us", "fwd_planned_us", "bwd_us", "bwd_planned_us", "plan_us", "plan_waited_us"),
        *("fewest_timed_runs", "host_us", "modes", "workspace_bytes", "schedule", "schedule_from", "source_hash"),
        *("kernel_us", "fwd_over_kernel_us", "peak_extra_bytes", "plan_stats"),
    )
)
"""Keys of `rowloom report`, then ours; null where nothing is measured. Schedules are not visible from Python."""


def rounds_of(case: Case, protocol: Protocol, quick: bool) -> Rounds:
    """How implementations take turns on this device."""
    on_gpu = case.device.type == "cuda"
    budget = None if on_gpu else QUICK_CPU_BUDGET_S if quick else CPU_BUDGET_S
    return Rounds(protocol.warm_up, protocol.timed_runs, protocol.rounds, SETTLE_CALLS if on_gpu else 0, budget)


def turns_of(implementations: int, rounds: Rounds) -> int:
    """Steps that `interleaved_times` tells of."""
    return len(STEPS) * implementations * (1 + rounds.rounds)


def interleaved_times(
    implementations: Mapping[str, Implementation],
    runs: Mapping[str, Run],
    batch: Batch,
    case: Case,
    rounds: Rounds,
    tick: Callable[[int], None],
) -> dict[str, dict[str, Any] | BaseException]:
    """The published figures of each implementation, or what it failed with."""
    clock = clock_of(case.device)
    result: dict[str, dict[str, Any] | BaseException] = {name: dict(EMPTY) for name in implementations}
    for key, step in STEPS.items():
        turns: dict[str, Turn] = {
            name: step(implementation, runs[name], batch)
            for name, implementation in implementations.items()
            if not isinstance(result[name], BaseException)
        }
        for name, samples in interleaved(turns, rounds, clock, tick).items():
            times = result[name]
            if samples.failure is not None:
                result[name] = samples.failure
            elif not isinstance(times, BaseException):
                times[key] = samples.median()
                _note_fewest(times, samples, rounds)
    return result


def _note_fewest(times: dict[str, Any], samples: Samples, rounds: Rounds) -> None:
    if len(samples.us) < rounds.runs:
        known = times["fewest_timed_runs"]
        times["fewest_timed_runs"] = len(samples.us) if known is None else min(known, len(samples.us))


def _times_of_a_plan(planned: Planned, batch: Batch, samples: int) -> dict[str, float]:
    """What making one takes, behind a delay and waited for."""
    clock = clock_of(batch.table.device)

    def make() -> object:
        return planned.plan(batch.timestep, batch.modality)

    behind = behind_delay_us(make, samples)
    return {"plan_us": behind, "plan_waited_us": statistics.median([clock.sample_us(make) for _ in range(samples)])}


def device_times(
    implementation: Implementation,
    run: Run,
    batch: Batch,
    gradients: Sequence[Tensor],
    protocol: Protocol,
    times: dict[str, Any],
) -> None:
    """Fills what only a GPU has: times of the device alone and of the host alone, memory, plans."""
    samples = max(5, protocol.timed_runs // 10)
    clock = clock_of(batch.table.device)
    before = {} if implementation.stats is None else implementation.stats()
    with implementation.mode():
        times["peak_extra_bytes"] = peak_extra_bytes(implementation, run, batch, gradients)
    with steps.forward(implementation, run, batch)() as call:
        host = {"fwd": host_us(call, protocol.timed_runs, HOST_CALLS["fwd"], clock)}
    with steps.published_step(implementation, run, batch)() as call:
        host["fwd_bwd"] = host_us(call, protocol.timed_runs, HOST_CALLS["fwd_bwd"], clock)
    planned, planned_run = implementation.planned, run
    if planned is not None:
        plan = planned.plan(batch.timestep, batch.modality)
        planned_run = planned.run(plan)
    with steps.forward(implementation, planned_run, batch)() as call:
        forward = queued(call, samples)
    with steps.backward(implementation, planned_run, batch)() as call:
        backward = queued(call, samples)
    times["host_us"] = {
        **host,
        "fwd_planned": forward.host_us if planned is not None and forward is not None else None,
        "bwd_planned": backward.host_us if planned is not None and backward is not None else None,
    }
    times["kernel_us"] = {
        "forward": None if forward is None else forward.us,
        "backward": None if backward is None else backward.us,
    }
    times["fwd_over_kernel_us"] = None if forward is None else times["fwd_us"] - forward.us
    if planned is not None:
        times["fwd_planned_us"] = times["kernel_us"]["forward"]
        times["bwd_planned_us"] = times["kernel_us"]["backward"]
        times |= _times_of_a_plan(planned, batch, samples)
    if implementation.stats is not None:
        now = implementation.stats()
        # Counts are the process's; those of these calls alone say whether plans are found again.
        counted = {key: now[key] - before[key] for key in ("hits", "misses")}
        times["plan_stats"] = {**counted, "entries": now["entries"], "bytes": now["bytes"]}
