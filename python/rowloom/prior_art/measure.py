"""The whole run: checks of each implementation, then accuracy and times of all of them at each S."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rowloom.prior_art import accuracy, invariance, latency, table_gradient
from rowloom.prior_art.ceilings import ceilings
from rowloom.prior_art.field import Field
from rowloom.prior_art.implementations import Entry, Implementation, Run
from rowloom.prior_art.inputs import Case
from rowloom.prior_art.progress import Progress
from rowloom.prior_art.protocol import Protocol


@dataclass(frozen=True)
class Measured:
    """What a run has found."""

    plain: dict[str, Any]
    """By implementation: what was measured, or `{"unavailable": reason}`."""
    ceilings: dict[str, Any] | None
    """By S; None on a CPU."""


def measure(
    entries: Mapping[str, Entry],
    case: Case,
    protocol: Protocol,
    quick: bool,
    progress: Progress,
    keep: Callable[[Measured], None] = lambda _: None,
) -> Measured:
    """Measures every implementation that is there. One that fails on the way becomes unavailable with the reason.

    `keep` gets what has been found by then, after each S.
    """
    field = Field(dict(entries), case)
    size = protocol.gradient_size()
    batch, gradients = case.batch(size, protocol.layout_seed), case.gradients(size, protocol.gradient_seed)

    def checks(implementation: Implementation) -> dict[str, Any]:
        run, tick = implementation.run, progress.tick
        with implementation.mode():
            found = {
                "all_rows": invariance.all_rows(run, case, protocol, tick),
                "params_repeatable": invariance.params_repeatable(implementation, case, protocol),
                "full_vs_sub_batches": invariance.full_vs_sub(run, case, protocol, tick),
                "batch_size_sweep": invariance.sweep(run, case, protocol, tick),
                "table_gradient": table_gradient.check(implementation, batch, gradients, protocol.repeats, tick),
            }
        return {**found, "batch_invariant": is_invariant(found)}

    for name in field.available():
        progress.begin(f"{name}: checks", protocol.calls() + table_gradient.steps(protocol.repeats))
        found = field.attempt(name, "its checks", checks)
        progress.end(field.outcome(name))
        if found is not None:
            field.checks[name] = found
    del batch, gradients

    runs: dict[str, Run] = {}
    for name in field.available():
        run = field.attempt(name, "its preparation", lambda implementation: implementation.timed())
        if run is not None:
            runs[name] = run
    measured_ceilings: dict[str, Any] = {}
    for positions in protocol.positions:
        found_ceilings = at_size(field, runs, positions, protocol, quick, progress)
        if found_ceilings is not None:
            measured_ceilings[str(positions)] = found_ceilings
        keep(Measured(field.results(), measured_ceilings or None))
    return Measured(field.results(), measured_ceilings or None)


def is_invariant(found: Mapping[str, Any]) -> bool:
    """Whether nothing that was compared differed."""
    pieces, gradient = found["full_vs_sub_batches"], found["table_gradient"]
    counts = [batch[key] for batch in found["all_rows"].values() for key in ("fwd_differ", "rowgrad_differ")]
    counts += [pieces["fwd_differ"], pieces["rowgrad_differ"], found["batch_size_sweep"]["differ"]]
    counts += [count for key, count in gradient.items() if key.endswith("_differ") and count is not None]
    return bool(found["params_repeatable"]) and not any(counts)


def at_size(
    field: Field, runs: Mapping[str, Run], positions: int, protocol: Protocol, quick: bool, progress: Progress
) -> dict[str, float] | None:
    """Accuracy and times of all implementations at one S; the ceilings of the memory, on a GPU."""
    case, key = field.case, str(positions)
    on_gpu = case.device.type == "cuda"
    batch, gradients = case.batch(positions, protocol.layout_seed), case.gradients(positions, protocol.gradient_seed)
    reference = accuracy.Reference.of(batch, gradients)
    found: dict[str, dict[str, Any]] = {}
    for name in field.available():
        progress.begin(f"S = {positions}, {name}: accuracy", 1)

        def errors(implementation: Implementation, name: str = name) -> dict[str, Any]:
            with implementation.mode():
                return accuracy.measure(runs[name], reference)

        errors_found = field.attempt(name, f"accuracy at S = {positions}", errors)
        progress.end(field.outcome(name))
        if errors_found is not None:
            found[name] = errors_found
    del reference
    memory_speed = ceilings(positions * case.bytes_per_position(), case.device) if on_gpu else None

    rounds = latency.rounds_of(case, protocol, quick)
    racing = field.available()
    progress.begin(f"S = {positions}, {len(racing)} implementations in turn: times", latency.turns_of(len(racing), rounds))
    times = latency.interleaved_times(racing, runs, batch, case, rounds, progress.tick)
    progress.end()
    for name, of_name in times.items():
        if isinstance(of_name, BaseException):
            field.drop(name, f"timing at S = {positions}", of_name)
            continue
        if on_gpu:
            progress.begin(f"S = {positions}, {name}: device, host, memory", 1)

            def device(implementation: Implementation, name: str = name, of_name: dict[str, Any] = of_name) -> None:
                latency.device_times(implementation, runs[name], batch, gradients, protocol, of_name)

            field.attempt(name, f"times of the device at S = {positions}", device)
            progress.end(field.outcome(name))
        errors_found = found[name]
        rounded = errors_found.pop("correctly_rounded")
        field.sizes[name][key] = {**errors_found, **of_name, "correctly_rounded": rounded}
    return memory_speed
