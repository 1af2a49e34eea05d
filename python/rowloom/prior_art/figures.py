"""Figures of a report, PNG and SVG beside it. `python -m rowloom.prior_art.figures report.json` draws again."""

from __future__ import annotations

import argparse
import io
import sys
from pathlib import Path
from typing import Any

from rowloom.prior_art import output
from rowloom.prior_art.lines import CHECKS, at, sizes
from rowloom.prior_art.report import published
from rowloom.prior_art.reports import NoReport, device_name, layout, measured, read

OURS, OTHERS = "#1f6f8b", "#b0a18f"


def _number(value: float) -> str:
    """Four digits, and no powers of ten."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def beside(path: Path, report: dict[str, Any]) -> list[str]:
    """Draws the figures of the report at `path`; what was written, or why nothing was."""
    try:
        import matplotlib
    except ImportError:
        return ["no figures: matplotlib is not installed (pip install matplotlib, then rowloom.prior_art.figures)"]
    matplotlib.use("agg")
    lines = []
    for name, figure in (("speed", speed(report)), ("accuracy", accuracy(report))):
        for target in files(path, name):
            drawn = io.BytesIO()
            figure.savefig(drawn, format=target.suffix[1:], dpi=150, bbox_inches="tight")
            output.write(target, drawn.getvalue())
            lines.append(f"wrote {target}")
    return lines


def files(path: Path, *names: str) -> list[Path]:
    """Where these figures of the report at `path` lie; all of them unless some are named."""
    return [path.with_name(f"{path.stem}-{name}.{kind}") for name in names or ("speed", "accuracy") for kind in ("png", "svg")]


def _where(report: dict[str, Any]) -> str:
    hidden = (report.get("protocol") or {}).get("hidden", 5376)
    return f"{report['op']} on {device_name(report)}, bf16, H = {hidden}, {layout(report)}"


def ceiling_lines(report: dict[str, Any], positions: str) -> dict[str, float]:
    """µs that the memory needs for what each timed call must move at least; none without ceilings."""
    ceiling = (report["environment"].get("ceilings") or {}).get(positions)
    if ceiling is None:
        return {}
    moved = report["protocol"]["traffic"]["forward"]["bytes_per_position"] * int(positions)
    write, read_once = (moved / ceiling[key] / 1e3 for key in ("write_gb_s", "read_gb_s"))
    # The step writes outputs and gradients of ones, and reads the gradients.
    return {"fwd_us": write, "fwd_bwd_us": 2 * write + read_once}


def speed(report: dict[str, Any]) -> Any:
    """Times by implementation for each S, with what the memory needs as a line."""
    from matplotlib.figure import Figure

    results = measured(report)
    columns = sizes(results.values())
    names = list(results)
    kinds = {"fwd_us": "forward", "fwd_bwd_us": "clone, forward, ones, backward"}
    figure = Figure(figsize=(4.6 * max(1, len(columns)), 2.2 + 0.62 * len(names)), layout="constrained")
    axes = figure.subplots(len(kinds), max(1, len(columns)), squeeze=False)
    for line, (key, title) in enumerate(kinds.items()):
        for column, positions in enumerate(columns):
            axis = axes[line][column]
            us = [at(results[name], positions, (key,)) or 0.0 for name in names]
            unit, scale = ("ms", 1e3) if max(us, default=0.0) >= 2e4 else ("µs", 1.0)
            colours = [OURS if name.startswith("rowloom") else OTHERS for name in names]
            bars = axis.barh(names, [time / scale for time in us], color=colours)
            axis.bar_label(bars, fmt=_number, padding=3, fontsize=8)
            if key == "fwd_us":
                kernel = [at(results[name], positions, ("kernel_us", "forward")) for name in names]
                known = [(time / scale, name) for time, name in zip(kernel, names, strict=True) if time is not None]
                if known:
                    axis.plot(*zip(*known, strict=True), "k|", markersize=12, label="device alone")
            needed = ceiling_lines(report, positions).get(key)
            if needed is not None:
                label = f"memory needs {_number(needed / scale)} {unit}"
                axis.axvline(needed / scale, color="crimson", linestyle="--", label=label)
            if axis.get_legend_handles_labels()[0]:
                axis.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, frameon=False)
            axis.invert_yaxis()
            axis.margins(x=0.26)
            axis.set_xlabel(f"median, {unit}")
            axis.set_title(f"{title}, S = {positions}", fontsize=9)
    figure.suptitle(f"Times: {_where(report)}", fontsize=11)
    return figure


def accuracy(report: dict[str, Any]) -> Any:
    """Gradient errors and counts of what differs, the published ones beside ours."""
    from matplotlib.figure import Figure

    results = measured(report)
    known = published()
    gpu = known["environment"]["gpu"]
    results.update({f"{name}, published ({gpu})": result for name, result in known["results"]["plain"].items()})
    names, columns = list(results), sizes(results.values())
    figure = Figure(figsize=(15, 1.8 + 0.5 * len(names)), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.8])
    height = 0.8 / max(1, len(columns))
    for number, positions in enumerate(columns):
        errors = [at(results[name], positions, ("grad_rel_err", "table")) for name in names]
        places = [place + (number - (len(columns) - 1) / 2) * height for place in range(len(names))]
        numbers = [error if isinstance(error, int | float) else 0.0 for error in errors]
        left.barh(places, numbers, height, label=f"S = {positions}")
    left.set_yticks(range(len(names)), names, fontsize=8)
    left.invert_yaxis()
    if any(isinstance(at(result, s, ("grad_rel_err", "table")), float) for result in results.values() for s in columns):
        left.set_xscale("log")
        left.set_xlim(left=1e-3)
    left.set_xlabel("table gradient: max|error| / max|exact|")
    left.legend(fontsize=7)
    _counts(right, results)
    figure.suptitle(f"Accuracy and batch invariance: {_where(report)}", fontsize=11)
    return figure


def _counts(axis: Any, results: dict[str, Any]) -> None:
    checks = {name: check for name, check in CHECKS.items() if name.endswith("differ")}
    cells, colours = [], []
    for result in results.values():
        values = [check(result) for check in checks.values()]
        cells.append(["not checked" if value is None else value for value in values])
        colours.append(
            ["white" if value is None else "#d9ead3" if value.startswith("0 of") else "#f4cccc" for value in values]
        )
    axis.axis("off")
    table = axis.table(
        cellText=cells,
        cellColours=colours,
        colLabels=[name.removesuffix(", differ") for name in checks],
        rowLabels=list(results),
        loc="center",
        cellLoc="center",
    )
    table.auto_set_font_size(False)
    table.set_fontsize(7)
    table.scale(1.0, 1.6)
    axis.set_title("differ, of compared", fontsize=9)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m rowloom.prior_art.figures",
        description="Draws the figures of a report again, beside it.",
        epilog="example: python -m rowloom.prior_art.figures report.json",
    )
    parser.add_argument("report", type=Path)
    path = parser.parse_args(arguments).report
    try:
        lines = beside(path, read(path))
    except (NoReport, output.OutputError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print("\n".join(lines))
    return 0 if lines[0].startswith("wrote") else 1


if __name__ == "__main__":
    sys.exit(main())
