"""What a long run tells: one moving line on a terminal, else a line where a part begins and one where it ends."""

from __future__ import annotations

import sys
import time
from typing import TextIO


class Progress:
    """Written to standard error."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._moves = self._stream.isatty()
        self._begin("", 0)

    def _begin(self, name: str, total: int) -> None:
        self._name, self._total, self._done = name, total, 0
        self._start = self._shown = time.monotonic()

    def begin(self, name: str, total: int) -> None:
        """A part of so many steps."""
        self._begin(name, total)
        if not self._moves:
            self._stream.write(f"{name}\n")
            self._stream.flush()
        self._show()

    def tick(self, steps: int) -> None:
        """So many more of them are done."""
        self._done += steps
        if time.monotonic() - self._shown > 0.1:
            self._shown = time.monotonic()
            self._show()

    def end(self, outcome: str = "") -> None:
        """The part is over."""
        seconds = time.monotonic() - self._start
        ended = f"{self._name}: {seconds:.1f} s{f', {outcome}' if outcome else ''}"
        self._stream.write(f"\r\x1b[K{ended}\n" if self._moves else f"{ended}\n")
        self._stream.flush()

    def _show(self) -> None:
        if self._moves:
            self._stream.write(f"\r\x1b[K{self._name}: {self._done} of {self._total}")
            self._stream.flush()
