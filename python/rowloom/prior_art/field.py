"""The implementations of a run: those that still run, why others do not, and what each has shown."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from rowloom.prior_art.implementations import Entry, Implementation, Unavailable, because
from rowloom.prior_art.inputs import Case

T = TypeVar("T")


class Field:
    """The implementations, of which some drop out on the way."""

    def __init__(self, entries: dict[str, Entry], case: Case) -> None:
        self._entries = entries
        self.case = case
        self.checks: dict[str, dict[str, Any]] = {}
        self.sizes: dict[str, dict[str, Any]] = {name: {} for name in entries}

    def available(self) -> dict[str, Implementation]:
        """Those that have not failed."""
        return {name: entry for name, entry in self._entries.items() if isinstance(entry, Implementation)}

    def attempt(self, name: str, what: str, work: Callable[[Implementation], T]) -> T | None:
        """Runs work on one; None, and unavailable from now on, when it fails."""
        entry = self._entries[name]
        if isinstance(entry, Unavailable):
            return None
        try:
            return work(entry)
        # Any error of another package ends that implementation alone.
        except Exception as error:  # noqa: BLE001
            self.drop(name, what, error)
            return None
        finally:
            self.free(entry)

    def drop(self, name: str, what: str, error: BaseException) -> None:
        """It has failed in this."""
        self._entries[name] = Unavailable(f"{what} failed with {because(error).reason}")

    def free(self, implementation: Implementation) -> None:
        """Memory that one held is the next one's."""
        implementation.forget()
        gc.collect()
        if self.case.device.type == "cuda":
            torch.cuda.empty_cache()

    def outcome(self, name: str) -> str:
        """Why one is unavailable, for people; empty otherwise."""
        entry = self._entries[name]
        return f"unavailable: {entry.reason}" if isinstance(entry, Unavailable) else ""

    def results(self) -> dict[str, Any]:
        """In the schema."""
        plain: dict[str, Any] = {}
        for name, entry in self._entries.items():
            if isinstance(entry, Unavailable):
                plain[name] = {"unavailable": entry.reason}
                continue
            plain[name] = {
                "source": entry.source,
                "has_backward": True,
                "batch_invariance": self.checks[name],
                "accuracy_latency": self.sizes[name],
            }
        return plain
