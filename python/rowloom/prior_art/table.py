"""`python -m rowloom.prior_art.table report.json ...`: reports as rows of Markdown."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from rowloom.prior_art.lines import CHECKS, at, sizes, text
from rowloom.prior_art.reports import NoReport, device_name, layout, measured, read, unavailable

SPEED = (
    "forward, µs",
    "plan, once a layout: waited for; behind a delay, µs",
    "forward + backward, µs",
    "kernel: forward; backward, µs",
    "host: forward; step, µs",
    "extra MiB: forward; backward",
    "gradient error",
    "correctly rounded",
)


def markdown(report: dict[str, Any]) -> str:
    """Two tables: times, memory and accuracy by S and implementation, and the checks of batch invariance."""
    results, environment = measured(report), report["environment"]
    out = [f"{device_name(report)}, `{layout(report)}`, torch {environment['torch']}:", ""]
    out += _rows(["S", "implementation", *SPEED])
    for positions in sizes(results.values()):
        out += [_row([positions, f"`{name}`", *_speed(report, positions, name)]) for name in results]
    ceilings = environment.get("ceilings") or {}
    for positions, ceiling in ceilings.items():
        speeds = [f"{key.removesuffix('_gb_s')} {speed:.0f}" for key, speed in ceiling.items() if key.endswith("_gb_s")]
        out += ["", f"Ceilings at S = {positions}, GB/s: {', '.join(speeds)}.{_host(ceiling)}"]
    out += ["", *_rows(["implementation", *CHECKS])]
    out += [_row([f"`{name}`", *(text(check(result)) for check in CHECKS.values())]) for name, result in results.items()]
    for name, reason in unavailable(report).items():
        out += ["", f"`{name}` is unavailable: {reason}"]
    return "\n".join(out) + "\n"


def _host(ceiling: dict[str, float]) -> str:
    """What the published clock shows of nothing, where it was asked."""
    pair, op = ceiling.get("event_pair_us"), ceiling.get("smallest_op_us")
    return "" if pair is None or op is None else f" Between two events, µs: nothing {pair:.1f}, torch's smallest op {op:.1f}."


def _rows(header: list[str]) -> list[str]:
    return [_row(header), "|" + "---|" * len(header)]


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _speed(report: dict[str, Any], positions: str, name: str) -> list[str]:
    result = report["results"]["plain"][name]

    def pair(group: tuple[str, ...], left: str, right: str, scale: float = 1.0, share: bool = False) -> str:
        cells = []
        for key in (left, right):
            value = at(result, positions, (*group, key))
            cell = "-" if value is None else f"{value / scale:.1f}"
            ceiling = _share(report, positions, key, value) if share and value is not None else None
            cells.append(cell if ceiling is None else f"{cell} ({100 * ceiling:.0f} %)")
        return "; ".join(cells)

    return [
        text(at(result, positions, ("fwd_us",))),
        pair((), "plan_waited_us", "plan_us"),
        text(at(result, positions, ("fwd_bwd_us",))),
        pair(("kernel_us",), "forward", "backward", share=True),
        pair(("host_us",), "fwd", "fwd_bwd"),
        pair(("peak_extra_bytes",), "forward", "backward", scale=2**20),
        text(at(result, positions, ("grad_rel_err", "table"))),
        text(at(result, positions, ("correctly_rounded",))),
    ]


def _share(report: dict[str, Any], positions: str, direction: str, us: float) -> float | None:
    """How much of its ceiling a time is."""
    traffic = (report.get("protocol") or {}).get("traffic", {}).get(direction)
    ceiling = (report["environment"].get("ceilings") or {}).get(positions)
    if traffic is None or ceiling is None:
        return None
    moved = float(traffic["bytes_per_position"]) * int(positions)
    return moved / us / 1e3 / float(ceiling[f"{traffic['kind']}_gb_s"])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m rowloom.prior_art.table",
        description="Prints reports as rows of Markdown.",
        epilog="example: python -m rowloom.prior_art.table report.json t2va.json",
    )
    parser.add_argument("reports", nargs="+", type=Path, metavar="REPORT")
    try:
        print("\n".join(markdown(read(path)) for path in parser.parse_args(arguments).reports), end="")
    except NoReport as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
