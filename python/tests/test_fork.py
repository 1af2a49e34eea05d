"""Forked children: they have none of their parent's threads, and must not wait for them."""

import os
import signal
import threading
import warnings
from collections.abc import Callable
from operator import attrgetter

import numpy as np
import pytest
from conftest import HAS_TORCH

from rowloom import numpy as rn

SECONDS = 60

TABLE = np.random.default_rng(0).standard_normal((300, 512)).astype(np.float32)
ROW = np.random.default_rng(1).integers(0, 300, 20000)


def in_a_child(work: Callable[[], bool]) -> int:
    """How a forked child ends: 0 where `work` is true, another number where not, a signal's where it hangs."""
    with warnings.catch_warnings():
        # Python warns that a process of several threads forks, which is what is tried.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        code = 2
        try:
            code = 0 if work() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_forked_child_has_threads_of_its_own() -> None:
    gathered = rn.row_gather(TABLE, ROW)
    summed = rn.row_scatter_sum(gathered, ROW, R=300)

    def again() -> bool:
        plan = rn.row_gather.plan(ROW, rows=300)
        same = np.array_equal(rn.row_gather(TABLE, ROW, plan=plan), gathered)
        return same and np.array_equal(rn.row_scatter_sum(gathered, ROW, R=300), summed)

    def of_a_child() -> bool:
        return again() and in_a_child(again) == 0 and again()

    assert in_a_child(of_a_child) == 0
    assert again()


if HAS_TORCH:
    import torch

    from rowloom import torch as rt
    from rowloom.torch import plans

    class Gathered(torch.utils.data.Dataset[torch.Tensor]):
        """Samples that a kernel makes."""

        def __len__(self) -> int:
            return 2

        def __getitem__(self, at: int) -> torch.Tensor:
            gathered: torch.Tensor = rt.row_gather(torch.from_numpy(TABLE), torch.from_numpy(ROW) * at)
            return gathered

    def test_a_worker_of_a_data_loader_calls_kernels() -> None:
        expected = [Gathered()[at] for at in range(2)]
        loader = torch.utils.data.DataLoader(
            Gathered(), batch_size=None, num_workers=1, timeout=SECONDS, multiprocessing_context="fork"
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            found = list(loader)
        assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))

    @pytest.mark.parametrize("lock", ["cache._lock", "setting.lock"])
    def test_a_child_does_not_wait_for_what_another_thread_of_its_parent_held(lock: str) -> None:
        table, row = torch.from_numpy(TABLE), torch.from_numpy(ROW)
        gathered = rt.row_gather(table, row)
        held, forked = threading.Event(), threading.Event()

        def hold() -> None:
            with attrgetter(lock)(plans):
                held.set()
                forked.wait()

        def again() -> bool:
            # As a worker of a DataLoader does: torch's own threads are not there either.
            torch.set_num_threads(1)
            before = rt.plan_stats()
            with rt.auto_plans(True):
                same = all(torch.equal(rt.row_gather(table, row), gathered) for _ in range(2))
            after = rt.plan_stats()
            return same and (after.hits - before.hits, after.misses - before.misses, after.entries) == (1, 1, 1)

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        try:
            assert in_a_child(again) == 0
        finally:
            forked.set()
            thread.join()

    def test_a_gpu_of_the_parent_is_refused_in_a_forked_child(cuda: str) -> None:
        table, row = torch.from_numpy(TABLE).to(cuda), torch.from_numpy(ROW).to(cuda)
        gathered = rt.row_gather(table, row)

        def refused() -> bool:
            with pytest.raises(RuntimeError, match="fork"):
                rt.row_gather(table, row)
            native = rt.row_gather.declared.native
            with pytest.raises(RuntimeError, match="CUDA was started in process .* of which this one was forked"):
                native.forward(0, [table, row], [gathered], None, "now", {})
            return True

        assert in_a_child(refused) == 0
