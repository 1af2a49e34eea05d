"""The report as a table for people, the published figures beside it."""

from __future__ import annotations

from typing import Any

from rowloom.prior_art.lines import CHECKS, SIZES, at, sizes, text
from rowloom.prior_art.reports import unavailable


def summary(report: dict[str, Any], published: dict[str, Any]) -> str:
    """One line for each thing measured, one column for each implementation."""
    columns: dict[str, Any] = dict(report["results"]["plain"])
    for name, result in published["results"]["plain"].items():
        columns[f"{name}, published ({published['environment']['gpu']})"] = result
    table = [["", *columns]]
    for name, check in CHECKS.items():
        table.append([name, *(_cell(result, check(result)) for result in columns.values())])
    for positions in sizes(columns.values()):
        for name, path in SIZES.items():
            values = [at(result, positions, path) for result in columns.values()]
            if any(value is not None for value in values):
                cells = [_cell(result, value) for result, value in zip(columns.values(), values, strict=True)]
                table.append([f"S = {positions}: {name}", *cells])
    lines = aligned(table)
    for name, reason in unavailable(report).items():
        lines += f"{name} is unavailable: {reason}\n"
    return lines


def _cell(result: dict[str, Any], value: Any) -> str:
    return "unavailable" if "unavailable" in result else text(value)


def aligned(table: list[list[str]]) -> str:
    """Columns of equal width, the first one to the left."""
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines = []
    for row in table:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"
