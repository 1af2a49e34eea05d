"""How rowloom itself is called in each of its modes: by a stand-in that notes it, and in earnest."""

import contextlib
import sys
import types
from collections import namedtuple

import pytest
import torch
from prior_art_case import CASE, TINY, measured
from rowloom.prior_art import steps
from rowloom.prior_art.differences import bits
from rowloom.prior_art.implementations import diffusers, make
from rowloom.prior_art.table_gradient import table_gradient

OURS = ["rowloom", "rowloom_f64", "rowloom_checked", "rowloom_deferred"]


class StandIn:
    """The face of `rowloom.torch`, with `index_select` behind it, and a note of every call."""

    def __init__(self, notes, order="float32"):
        self.notes, self.order = notes, order
        self.automatic = notes.setdefault("automatic", [True])

    def __call__(self, table, timestep, modality, *, plan=None, check="now"):
        self.notes.setdefault("calls", []).append((self.order, plan, check, self.automatic[-1]))
        return diffusers(table, timestep, modality)

    def with_order(self, *, accumulate):
        return StandIn(self.notes, accumulate)

    def plan(self, timestep, modality, rows):
        assert rows == 9
        return f"plan of {timestep.shape[0]}"


@pytest.fixture
def notes(monkeypatch):
    notes = {}
    api = types.ModuleType("rowloom.torch")
    api.adaln_row_gather = StandIn(notes)

    @contextlib.contextmanager
    def auto_plans(enabled):
        notes["automatic"].append(enabled)
        yield
        notes["automatic"].pop()

    api.auto_plans = auto_plans
    api.clear_plans = lambda: notes.update(cleared=True)
    api.plan_stats = namedtuple("PlanStats", "hits misses entries bytes")(3, 2, 1, 340)._replace
    monkeypatch.setitem(sys.modules, "rowloom.torch", api)
    import rowloom

    monkeypatch.setattr(rowloom, "torch", api, raising=False)
    return notes


def test_each_mode_calls_as_it_says(notes):
    batch = CASE.batch(4, 3)
    wanted = {
        "rowloom": ("float32", None, "now", True),
        "rowloom_f64": ("float64", None, "now", True),
        "rowloom_checked": ("float32", None, "now", False),
        "rowloom_deferred": ("float32", None, "deferred", False),
    }
    for name, implementation in make(OURS, CASE.device).items():
        notes["calls"] = []
        for step in (steps.forward, steps.published_step):
            with step(implementation, implementation.timed(), batch)() as call:
                call()
        assert notes["calls"] == [wanted[name]] * 2, name
        assert notes["automatic"] == [True]
        implementation.forget()
        assert notes["cleared"]
        assert implementation.stats() == {"hits": 3, "misses": 2, "entries": 1, "bytes": 340}
        planned = implementation.planned
        assert (planned is not None) == (name in ("rowloom", "rowloom_f64"))
        if planned is not None:
            planned.run(planned.plan(batch.timestep, batch.modality))(batch.table, batch.timestep, batch.modality)
            assert notes["calls"][-1] == (wanted[name][0], "plan of 4", "now", True)


def test_rowloom_differs_nowhere():
    for name, result in measured(**make(OURS, torch.device("cpu"))).plain.items():
        assert "unavailable" not in result, result
        assert result["batch_invariance"]["batch_invariant"] is True
        assert result["batch_invariance"]["batch_size_sweep"]["comparisons"] == TINY.comparisons()
        for at in result["accuracy_latency"].values():
            assert at["fwd_rel_err"] == 0.0
            assert at["grad_rel_err"]["table"] < 2**-8
            if name == "rowloom_f64":
                assert at["correctly_rounded"] == 1.0


def test_what_is_planned_has_the_bytes_of_what_is_not():
    batch, gradients = CASE.batch(130, 11), CASE.gradients(130, 9)
    for name in ("rowloom", "rowloom_f64"):
        implementation = make([name], CASE.device)[name]
        planned = implementation.planned
        run = planned.run(planned.plan(batch.timestep, batch.modality))
        wanted = table_gradient(implementation.run, batch, gradients)
        assert torch.equal(bits(table_gradient(run, batch, gradients)), bits(wanted))
        with steps.backward(implementation, run, batch)() as call:
            (first,), (again,) = call(), call()
        assert torch.equal(bits(first), bits(again))
        assert set(implementation.stats()) == {"hits", "misses", "entries", "bytes"}
