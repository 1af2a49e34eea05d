"""Automatic plans: found again for indices that were seen before."""

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from rowloom._native import Kernel, Recent
from rowloom.torch import private
from rowloom.torch.row_plan import RowPlan

ENTRIES = 64
BYTES = 256 << 20
"""What automatic plans keep alive at most, the newest apart: their state and the storages of their indices."""


class PlanStats(NamedTuple):
    """What automatic planning did in this process."""

    hits: int
    misses: int
    entries: int
    bytes: int
    """Of the plans kept, and of the storages of their indices."""


class _Entry(NamedTuple):
    plan: RowPlan
    indices: tuple[Tensor, ...]
    """Aliases: while they live no other storage has their identity."""
    copies: tuple[Tensor, ...]
    """What the indices held, on the CPU: there edits that no version shows are seen too."""
    storages: dict[int, int]
    """Bytes of each storage of the indices, by its identity."""

    def own_bytes(self) -> int:
        """Beside the storages."""
        return self.plan.state.nbytes + sum([copy.nbytes for copy in self.copies])


class PlanCache:
    """The plans of indices that were seen before, least recently used first.

    An index is the same as long as its storage, version, offset, shape, strides and type are. The lock
    is held for a look-up alone, never while a plan is built: two threads may both build one, and the
    later is kept.
    """

    def __init__(self, entries: int = ENTRIES, limit: int = BYTES) -> None:
        self._limit_entries = entries
        self._limit_bytes = limit
        # Reentrant: a collection inside may run a destructor that calls a kernel.
        self._lock = threading.RLock()
        self._entries: OrderedDict[object, _Entry] = OrderedDict()
        self._bytes = 0
        self._storages: dict[int, int] = {}
        """For each storage how many entries keep it alive: it counts once."""
        self._hits = 0
        self._misses = 0
        self._recents: list[Recent] = []
        self._of_parents: list[object] = []

    def find(self, key: object, indices: Sequence[Tensor]) -> RowPlan | None:
        """The plan under a key of `key_of`, if there is one."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and not entry.copies:
                self._entries.move_to_end(key)
                self._hits += 1
                return entry.plan
        # A storage that was taken away leaves an index that cannot be compared: the call says what is wrong with it.
        there = all([x.data_ptr() != 0 for x in indices])
        if entry is not None and there and all(map(torch.equal, indices, entry.copies)):
            with self._lock:
                if key in self._entries:
                    self._entries.move_to_end(key)
                self._hits += 1
            return entry.plan
        with self._lock:
            self._misses += 1
        return None

    def keep(self, key: object, indices: Sequence[Tensor], plan: RowPlan) -> None:
        """Keeps a plan of these indices, and forgets the least recently used beyond the limits."""
        storages = {private.storage_identity(x): x.untyped_storage().nbytes() for x in indices}
        copies = tuple(x.clone() for x in indices if x.is_cpu)
        entry = _Entry(plan, tuple(x.detach() for x in indices), copies, storages)
        plan.cached = True
        gone = []
        with self._lock:
            replaced = self._entries.pop(key, None)
            if replaced is not None:
                self._let_go(replaced)
                gone.append(replaced)
            self._entries[key] = entry
            self._bytes += entry.own_bytes()
            for storage, size in storages.items():
                count = self._storages.get(storage, 0)
                self._storages[storage] = count + 1
                self._bytes += 0 if count else size
            while len(self._entries) > self._limit_entries or (self._bytes > self._limit_bytes and len(self._entries) > 1):
                at, oldest = self._entries.popitem(last=False)
                if oldest is entry or any([recent.was_used(oldest.plan.state) for recent in self._recents]):
                    # Calls that were like earlier ones have found it without asking here.
                    self._entries[at] = oldest
                    continue
                self._let_go(oldest)
                gone.append(oldest)
        for entry in gone:
            entry.plan.cached = False
            for recent in self._recents:
                recent.forget(entry.plan.state)
        # Memory goes here, outside of the lock.
        del gone

    def _let_go(self, entry: _Entry) -> None:
        """Counts an entry no longer. The lock is held."""
        self._bytes -= entry.own_bytes()
        for storage, size in entry.storages.items():
            count = self._storages.pop(storage)
            if count > 1:
                self._storages[storage] = count - 1
            else:
                self._bytes -= size

    def recent(self, kernel: Kernel) -> Recent:
        """The latest calls of a kernel, which keep no plan longer than this does."""
        recent = kernel.recent(private.watched)
        self._recents.append(recent)
        return recent

    def forget_recent(self) -> None:
        """Every call asks again."""
        for recent in self._recents:
            recent.forget()

    def clear(self) -> None:
        """Forgets all plans; counts of hits and misses go on."""
        with self._lock:
            gone = self._entries
            self._entries = OrderedDict()
            self._storages = {}
            self._bytes = 0
        for entry in gone.values():
            entry.plan.cached = False
        self.forget_recent()
        del gone

    def begin_child(self) -> None:
        """In a forked child: another thread of its parent may have held the lock, and was half-way with a change.

        What the parent has kept stays, unseen, since a child cannot free memory of a GPU.
        """
        self._lock = threading.RLock()
        self._of_parents.append(self._entries)
        self._entries = OrderedDict()
        self._storages = {}
        self._bytes = 0

    def stats(self) -> PlanStats:
        with self._lock:
            hits = self._hits + sum([recent.hits for recent in self._recents])
            return PlanStats(hits, self._misses, len(self._entries), self._bytes)


def key_of(owner: object, expression: int, indices: Sequence[Tensor], rows: int, stream: int, batch: int) -> object:
    """What a plan is found by. No index may be an inference tensor, which has no version."""
    return (owner, expression, rows, stream, batch, *[private.content_key(x) for x in indices])


cache = PlanCache()


class _Setting:
    """Whether plans are made automatically, in this process."""

    enabled = True

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.changes: weakref.WeakKeyDictionary[auto_plans, None] = weakref.WeakKeyDictionary()
        """Those that may still be undone, in order: a `with` block holds its own."""

    def begin_child(self) -> None:
        """In a forked child: another thread of its parent may have held the lock."""
        self.lock = threading.RLock()

    def set(self, enabled: bool) -> None:
        self.enabled = enabled
        if not enabled:
            cache.forget_recent()


def _from_environment(value: str | None) -> bool:
    match value:
        case None | "" | "on":
            return True
        case "off":
            return False
    raise ValueError(f"ROWLOOM_AUTO_PLANS is {value!r}; it may be on or off")


setting = _Setting()
setting.enabled = _from_environment(os.environ.get("ROWLOOM_AUTO_PLANS"))

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=cache.begin_child)
    os.register_at_fork(after_in_child=setting.begin_child)


class auto_plans:
    """Turns automatic plans on or off, for all threads: at once, and until the end of a `with` block if there is one.

    Off, a call without `plan=` checks its indices and waits, and each backward builds its plan. The
    environment variable `ROWLOOM_AUTO_PLANS=off` does the same from the start.
    """

    def __init__(self, enabled: bool) -> None:
        if not isinstance(enabled, bool):
            raise TypeError(f"auto_plans takes True or False, not {enabled!r}")
        with setting.lock:
            self._before = setting.enabled
            setting.changes[self] = None
            setting.set(enabled)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        with setting.lock:
            changes = list(setting.changes)
            later = changes[changes.index(self) + 1 :] if self in changes else []
            setting.changes.pop(self, None)
            # Blocks of other threads may end in any order: one that began later goes on, and ends with what was before both.
            if later:
                later[0]._before = self._before
            else:
                setting.set(self._before)


def plan_stats() -> PlanStats:
    """Hits and misses of automatic plans so far, and what they keep alive now."""
    return cache.stats()


def clear_plans() -> None:
    """Forgets all automatic plans, and with them the indices that they keep alive."""
    cache.clear()
