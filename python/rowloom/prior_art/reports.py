"""Reports that are read again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def device_name(report: Mapping[str, Any]) -> str:
    """What a report was measured on."""
    environment = report["environment"]
    return environment.get("gpu") or environment.get("cpu") or "an unnamed device"


def layout(report: Mapping[str, Any]) -> str:
    """How its positions were packed; published reports know one way."""
    name: str = report["environment"].get("layout", "interleaved")
    return name


def measured(report: Mapping[str, Any]) -> dict[str, Any]:
    """The results of those that were not unavailable, by name."""
    return {name: result for name, result in report["results"]["plain"].items() if "unavailable" not in result}


def unavailable(report: Mapping[str, Any]) -> dict[str, str]:
    """Why the others were, by name."""
    plain = report["results"]["plain"]
    return {name: result["unavailable"] for name, result in plain.items() if "unavailable" in result}


class NoReport(Exception):
    """A file that is no report; one sentence."""


def read(path: Path) -> dict[str, Any]:
    """A report of `rowloom.prior_art`, of `rowloom report`, or a published one."""
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise NoReport(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise NoReport(f"{path} is no report: no JSON, {error}") from error
    results = report.get("results") if isinstance(report, dict) else None
    if not isinstance(results, dict) or not results.get("plain") or not isinstance(report.get("op"), str):
        raise NoReport(f"{path} is no report: it has no op or no results.plain")
    content: dict[str, Any] = report
    return content
