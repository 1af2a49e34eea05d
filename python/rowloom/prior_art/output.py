"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
from pathlib import Path
from typing import Any

PREFIX = ".rowloom-"
"""What names of files that are not there to stay begin with."""


class OutputError(Exception):
    """Nothing can be written there; one sentence."""


def check(path: Path) -> None:
    """Fails at once, before any work, when nothing could be written to `path`."""
    try:
        target = _target(path)
        folder = target.parent
        if target.is_dir():
            raise OutputError(f"--out: {path} names a folder; name a file in it")
        if not folder.is_dir():
            raise OutputError(f"--out: {path} is in a folder that does not exist; make {folder} first")
        # A device or a pipe would be replaced by a file.
        if target.exists() and not target.is_file():
            raise OutputError(f"--out: {path} is no regular file; choose another name")
        # What may be written is not for permissions alone to say.
        with tempfile.TemporaryFile(prefix=PREFIX, dir=folder):
            pass
    except (OSError, ValueError) as error:
        raise OutputError(f"--out: {path!s:.200} cannot be written: {_why(error)}") from error


def write(path: Path, content: bytes) -> None:
    """Writes beside `path`, or beside what it links to, and renames."""
    try:
        target = _target(path)
        descriptor, beside = tempfile.mkstemp(prefix=PREFIX, dir=target.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            # A temporary file is its maker's alone; a result is as readable as any other file.
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(beside, 0o666 & ~umask)
            os.replace(beside, target)
        except BaseException:
            os.unlink(beside)
            raise
    except (OSError, ValueError) as error:
        raise OutputError(f"{path} cannot be written: {_why(error)}") from error


def _target(path: Path) -> Path:
    """Where links lead."""
    target = path.resolve()
    # A name that is too long, or no name, is found by asking for it.
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        target.lstat()
    return target


def _why(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or str(error)


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
