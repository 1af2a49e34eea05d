"""Reports that are read again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


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
