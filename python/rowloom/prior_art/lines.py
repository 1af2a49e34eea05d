"""What reports say, a line each: the same lines as those of `rowloom compare`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

Result = Mapping[str, Any]
"""Of one implementation."""


def _of(part: int | None, whole: int | None) -> str | None:
    return None if part is None or whole is None else f"{part} of {whole}"


def _checks(result: Result) -> Mapping[str, Any]:
    checks: Mapping[str, Any] = result.get("batch_invariance") or {}
    return checks


def _alone(result: Result) -> str | None:
    batches = _checks(result).get("all_rows")
    if batches is None:
        return None
    differ = sum(batch["fwd_differ"] + batch["rowgrad_differ"] for batch in batches.values())
    return _of(differ, sum(batch["rows"] for batch in batches.values()))


def _sub_batches(result: Result) -> str | None:
    check = _checks(result).get("full_vs_sub_batches")
    return None if check is None else _of(check["fwd_differ"] + check["rowgrad_differ"], check["sub_batches"])


def _sweep(result: Result) -> str | None:
    check = _checks(result).get("batch_size_sweep")
    return None if check is None else _of(check["differ"], check["comparisons"])


def _gradient(key: str) -> Callable[[Result], str | None]:
    def line(result: Result) -> str | None:
        check = _checks(result).get("table_gradient")
        return None if check is None else _of(check[f"{key}_differ"], check[key])

    return line


CHECKS: dict[str, Callable[[Result], Any]] = {
    "batch invariant": lambda result: _checks(result).get("batch_invariant"),
    "sums repeatable": lambda result: _checks(result).get("params_repeatable"),
    "positions alone, differ": _alone,
    "sub-batches, differ": _sub_batches,
    "sweep, differ": _sweep,
    "rows alone, differ": _gradient("isolated_rows"),
    "other rows permuted, differ": _gradient("other_rows_permuted"),
    "sums repeated, differ": _gradient("repeats"),
}
"""The checks of batch invariance, as `differ of compared`."""

SIZES: dict[str, tuple[str, ...]] = {
    "fwd_rel_err": ("fwd_rel_err",),
    "grad_rel_err": ("grad_rel_err", "table"),
    "correctly_rounded": ("correctly_rounded",),
    "fwd_us": ("fwd_us",),
    "plan_waited_us": ("plan_waited_us",),
    "plan_us": ("plan_us",),
    "bwd_us": ("bwd_us",),
    "fwd_bwd_us": ("fwd_bwd_us",),
    "kernel_us, forward": ("kernel_us", "forward"),
    "kernel_us, backward": ("kernel_us", "backward"),
    "host_us, forward": ("host_us", "fwd"),
    "host_us, forward and backward": ("host_us", "fwd_bwd"),
    "peak_extra_bytes, forward": ("peak_extra_bytes", "forward"),
    "peak_extra_bytes, backward": ("peak_extra_bytes", "backward"),
}
"""What is measured at each S, by its way through the keys."""


def at(result: Result, positions: str, path: Iterable[str]) -> Any:
    """What is at the end of this way; None where there is nothing."""
    value: Any = (result.get("accuracy_latency") or {}).get(positions)
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def sizes(results: Iterable[Result]) -> list[str]:
    """Every S that some result has, smallest first."""
    found = {positions for result in results for positions in result.get("accuracy_latency") or {}}
    return sorted(found, key=int)


def text(value: Any) -> str:
    """A value with few digits."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    number = float(value)
    if number == 0.0:
        return "0"
    if isinstance(value, int):
        return str(value)
    if abs(number) < 0.1:
        return f"{number:.2e}"
    return f"{number:.6f}" if abs(number) <= 1.0 else f"{number:.1f}"
