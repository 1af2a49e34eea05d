"""Files that appear whole or not at all."""

from __future__ import annotations

import json
import math
import os
import tempfile
from pathlib import Path
from typing import Any


class OutputError(Exception):
    """Nothing can be written there; one sentence."""


def check(path: Path) -> None:
    """Fails at once, before any work, when nothing could be written to `path`."""
    if path.is_dir():
        raise OutputError(f"--out {path} names a folder; name a file in it")
    folder = path.parent
    if not folder.is_dir():
        raise OutputError(f"--out {path} is in a folder that does not exist; make {folder} first")
    if not os.access(folder, os.W_OK):
        raise OutputError(f"--out {path} is in a folder that may not be written; choose another one")


def write(path: Path, content: bytes) -> None:
    """Writes beside `path` and renames."""
    try:
        descriptor, beside = tempfile.mkstemp(prefix=".rowloom-", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            # A temporary file is its maker's alone; a result is as readable as any other file.
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(beside, 0o666 & ~umask)
            os.replace(beside, path)
        except BaseException:
            os.unlink(beside)
            raise
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror or error}") from error


def to_json(report: dict[str, Any]) -> bytes:
    """A report as text; what JSON has no number for is a word: `NaN`, `inf`, `-inf`."""
    return (json.dumps(_words(report), indent=2, allow_nan=False) + "\n").encode()


def _words(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _words(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_words(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value
