"""The report as a whole, in the published schema with what `rowloom report` adds to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

from rowloom.prior_art import environment
from rowloom.prior_art.ceilings import METHOD
from rowloom.prior_art.inputs import GENERATOR, ROWS, Case
from rowloom.prior_art.latency import SETTLE_CALLS
from rowloom.prior_art.measure import Measured
from rowloom.prior_art.protocol import Protocol

OP = "adaln_row_gather"

TIMING = (
    "fwd_us, fwd_bwd_us and bwd_us: for each sample new events, record, call, record, wait for the second, as published; "
    "implementations take turns, each in `rounds` turns whose order rotates, and the median is over the samples of all "
    f"turns; {SETTLE_CALLS} calls at the start of a turn are not timed. fwd_us: inputs that need no gradient. fwd_bwd_us: clone the "
    "table, forward, six gradients of ones, backward. bwd_us: the backward alone through autograd, its graph kept, "
    "for which torch_compile is compiled with functorch's donated_buffer off, here and in every other figure. "
    "kernel_us: calls queued behind a delay, their time on the device over their number, with a plan where there is one "
    "(then also fwd_planned_us, bwd_planned_us); null for calls that wait for the device themselves. plan_us: from the "
    "end of a delay, behind which the plan's launches wait, until its caller has been told: more than the device's own "
    "time. plan_waited_us: a plan made and waited for, once a layout, as fwd_us: what a first forward takes beyond fwd_us, "
    "but for code that is not loaded yet. host_us: the host's clock around calls of which none is waited for, but by a call that waits for the device itself. "
    "peak_extra_bytes: high-water mark of torch's allocator less inputs, outputs and gradients, cached plans dropped "
    "before. Caches are not flushed. On a CPU: the host's clock around each call, fewer calls where they take too long"
)

CHECKS = (
    "bytes are compared, on the device, full_vs_sub_batches in calls of columns_at_once columns; rowgrad_differ is 0 because no gradient of this op has a position axis; "
    "params_repeatable: the same call twice at every batch and seed of all_rows, plans that are cached dropped in between; "
    "table_gradient at S = gradient_positions with the inputs of accuracy, cached plans dropped before every other repeat; schedules are not visible from Python (null): `rowloom report` compares them"
)


def published() -> dict[str, Any]:
    """The published file: two implementations on a B200."""
    text = resources.files("rowloom.prior_art").joinpath("published_b200.json").read_text(encoding="utf-8")
    content: dict[str, Any] = json.loads(text)
    return content


def head(case: Case, protocol: Protocol, quick: bool) -> dict[str, Any]:
    """What the file says of the run, in its order. For before the run: what is wrong here costs no measurement then."""
    theirs = published()
    commit, dirty = environment.commit()
    bytes_per_position = case.bytes_per_position()
    return {
        "kind": theirs["kind"],
        "rfc": theirs["rfc"],
        "op": OP,
        "rl_kernel_commit": None,
        "rowloom_commit": commit,
        "tracked_tree_dirty": dirty,
        "environment": environment.environment(case.device, case.layout),
        "quick": quick,
        "protocol": {
            "dtype": "bf16",
            "hidden": case.hidden,
            "rows": {"R": ROWS},
            "index": "i64",
            "generator": GENERATOR,
            "columns_at_once": case.columns_at_once(protocol.full_batch),
            "sums": ["backward"],
            "traffic": {
                "forward": {"kind": "write", "bytes_per_position": bytes_per_position},
                "backward": {"kind": "read", "bytes_per_position": bytes_per_position},
            },
            "timing": TIMING,
            "checks": CHECKS,
            "ceilings": METHOD,
            **protocol.record(),
        },
    }


def build(head: Mapping[str, Any], measured: Measured, complete: bool = True) -> dict[str, Any]:
    """The whole file: its head, and what the run has found, by now or altogether."""
    environment = {**head["environment"], "ceilings": measured.ceilings}
    return {**head, "complete": complete, "environment": environment, "results": {"plain": measured.plain}}
