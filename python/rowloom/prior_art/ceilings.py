"""What the machine gives: its memory, reading, writing and copying as many bytes as the outputs hold, and its host,
between two events."""

from __future__ import annotations

import statistics

import torch

from rowloom._native import memory_ceilings
from rowloom.prior_art.clock import Call, clock_of
from rowloom.prior_art.queued import best_queued_us

SAMPLES = 5
ROUNDS = 3
HOST_SAMPLES = 50

METHOD = (
    "best of several of torch and of the plain kernels that `rowloom report` measures by; of torch each the median of calls queued behind a delay, over as many bytes as six outputs hold: "
    "read: sum and amax, of all and of each row, of float32; write: fill_ and zero_; "
    "copy: copy_, and add of 0 into existing memory (bytes read plus bytes written); "
    f"event_pair_us: what fwd_us would be of no call at all, smallest_op_us: of zero_ on 64 numbers, medians of {HOST_SAMPLES}, each "
    "after a wait for as many bytes written, as timed calls are: on a host that is slow then, every fwd_us has this in it"
)


def ceilings(bytes_moved: int, device: torch.device) -> dict[str, float] | None:
    """GB/s and µs of one size; None where the host was too slow to tell."""
    columns = 4096
    rows = max(1, bytes_moved // columns // 4)
    size = rows * columns * 4
    source = torch.ones(rows, columns, device=device)
    target = torch.empty_like(source)
    total, of_row = torch.empty((), device=device), torch.empty(rows, device=device)
    read = best_queued_us(
        [
            lambda: torch.sum(source, dim=(0, 1), out=total),
            lambda: torch.amax(source, dim=(0, 1), out=total),
            lambda: torch.sum(source, dim=1, out=of_row),
            lambda: torch.amax(source, dim=1, out=of_row),
        ],
        SAMPLES,
    )
    write = best_queued_us([lambda: target.fill_(1.0), lambda: target.zero_()], SAMPLES)
    few = torch.ones(64, device=device)
    host = {
        "event_pair_us": _after_a_wait_us(lambda: None, target),
        "smallest_op_us": _after_a_wait_us(lambda: few.zero_(), target),
    }
    copy = best_queued_us([lambda: target.copy_(source), lambda: torch.add(source, 0.0, out=target)], SAMPLES)
    if read is None or write is None or copy is None:
        return None
    # What torch's allocator keeps for itself is not there for those of the module.
    del source, target, total, of_row
    torch.cuda.empty_cache()
    stream = torch.cuda.current_stream(device)
    plain = memory_ceilings(stream.device_index, stream.cuda_stream, size, ROUNDS)
    of_torch = (size / read / 1e3, size / write / 1e3, 2 * size / copy / 1e3)
    names = ("read_gb_s", "write_gb_s", "copy_gb_s")
    memory = {name: max(found) for name, *found in zip(names, of_torch, plain, strict=True)}
    return {**memory, **host}


def _after_a_wait_us(call: Call, target: torch.Tensor) -> float:
    """The published time of a call behind a wait for a write of `target`."""
    clock = clock_of(target.device)
    times = []
    for _ in range(HOST_SAMPLES):
        target.fill_(1.0)
        clock.wait()
        times.append(clock.sample_us(call))
    return statistics.median(times)
