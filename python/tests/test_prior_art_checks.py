"""What is planted is found: in the checks, in accuracy, and in what is unavailable."""

import dataclasses
import itertools

import pytest
import torch
from prior_art_case import CASE, HIDDEN, TINY, measured, right, with_gradient
from rowloom.prior_art import accuracy, inputs, invariance
from rowloom.prior_art.differences import Differences, RowsOfWhole
from rowloom.prior_art.implementations import Implementation, Unavailable, diffusers, make
from rowloom.prior_art.table_gradient import shuffle_others


def test_a_right_implementation_differs_nowhere_and_every_comparison_is_counted():
    found = measured(right=right()).plain["right"]
    checks = found["batch_invariance"]
    assert checks["all_rows"] == {
        "5": {"rows": 15, "fwd_differ": 0, "rowgrad_differ": 0},
        "9": {"rows": 27, "fwd_differ": 0, "rowgrad_differ": 0},
    }
    assert checks["full_vs_sub_batches"]["sub_batches"] == TINY.sub_batches() == 2 * (64 + 10 + 2)
    assert checks["batch_size_sweep"]["comparisons"] == TINY.comparisons() == 3 * 8 * (1 + 2 + 3 * 3 + 1)
    assert checks["batch_size_sweep"]["first_failures"] == []
    assert checks["table_gradient"] == {
        "isolated_rows": 9,
        "isolated_rows_differ": 0,
        "other_rows_permuted": 9,
        "other_rows_permuted_differ": 0,
        "schedules": None,
        "schedules_differ": None,
        "repeats": 3,
        "repeats_differ": 0,
    }
    assert checks["batch_invariant"] is True
    for at in found["accuracy_latency"].values():
        assert at["fwd_rel_err"] == 0.0
        assert 0.0 < at["grad_rel_err"]["table"] < 2**-8
        assert all(at[key] > 0.0 for key in ("fwd_us", "fwd_bwd_us", "bwd_us"))


def test_a_batch_variant_forward_is_found_by_all_three_checks():
    def run(table, timestep, modality):
        outputs = list(diffusers(table, timestep, modality))
        # One element of one output, in batches of a few sizes.
        if timestep.shape[0] in (1, 7, 8):
            outputs[4] = outputs[4] + torch.nn.functional.one_hot(torch.tensor(3), HIDDEN)
        return outputs

    checks = measured(variant=Implementation("planted", run)).plain["variant"]["batch_invariance"]
    assert checks["all_rows"]["5"]["fwd_differ"] == 15
    assert checks["full_vs_sub_batches"]["fwd_differ"] == 2 * (64 + 10), "the tenth has one position"
    # Sizes 1 (one place) and 8 (three places), for 8 probes and 3 seeds.
    assert checks["batch_size_sweep"]["differ"] == 8 * 3 * 4
    failures = checks["batch_size_sweep"]["first_failures"]
    assert len(failures) == 8
    assert failures[0] == {"seed": 3, "batch": 1, "position": 0, "row": 0}
    assert failures[1] == {"seed": 3, "batch": 8, "position": 0, "row": 0}
    assert checks["batch_invariant"] is False


def test_a_gradient_that_changes_from_call_to_call_is_found():
    calls = itertools.count()
    flaky = with_gradient(lambda exact, rows: exact * (1.0 + 2.0**-6 * (next(calls) % 2)))
    checks = measured(flaky=flaky).plain["flaky"]["batch_invariance"]
    assert checks["params_repeatable"] is False
    # The first run is even; of three others the first and the third are odd.
    assert checks["table_gradient"]["repeats_differ"] == 2
    assert checks["all_rows"]["9"]["fwd_differ"] == 0
    assert checks["batch_invariant"] is False


def test_slices_of_columns_see_what_the_whole_sees(monkeypatch):
    monkeypatch.setattr(inputs, "CPU_BYTES", 3 * TINY.full_batch * 6 * 2)
    assert CASE.columns_at_once(TINY.full_batch) == 3
    widths = set()

    def run(table, timestep, modality):
        widths.add(table.shape[1] // 6)
        outputs = [chunk.clone() for chunk in diffusers(table, timestep, modality)]
        # The last column of the last chunk, as its value tells.
        outputs[5][outputs[5] == marked] += timestep.shape[0] == 7
        return outputs

    batch = CASE.batch(TINY.full_batch, TINY.full_batch_seeds[0])
    marked = batch.table[batch.timestep[0] * 3 + batch.modality[0], -1]
    found = invariance.full_vs_sub(run, CASE, TINY, lambda _: None)
    assert widths == {3, 2}
    assert found["sub_batches"] == TINY.sub_batches()
    assert 0 < found["fwd_differ"] <= 2 * 10


def test_a_plan_that_comes_out_otherwise_when_it_is_made_again_is_found():
    plans, made = {}, itertools.count()

    def by_plan(exact, rows):
        key = tuple(rows.tolist())
        if key not in plans:
            plans[key] = next(made) % 2
        return exact * (1.0 + 2.0**-6 * plans[key])

    hidden = dataclasses.replace(with_gradient(by_plan), forget=plans.clear)
    checks = measured(planned=hidden).plain["planned"]["batch_invariance"]
    assert checks["params_repeatable"] is False
    # Three repeats after the first run: made anew, as before, made anew.
    assert checks["table_gradient"]["repeats_differ"] in (1, 2)
    kept = measured(planned=with_gradient(by_plan)).plain["planned"]["batch_invariance"]
    assert kept["params_repeatable"] is True
    assert kept["table_gradient"]["repeats_differ"] == 0, "a plan that is kept hides it"


def test_a_gradient_that_depends_on_other_rows_is_found():
    def leak(exact, rows):
        return exact + (rows[0] != 4) * rows.shape[0]

    table = measured(leaky=with_gradient(leak)).plain["leaky"]["batch_invariance"]["table_gradient"]
    assert table["isolated_rows_differ"] == 9
    assert table["repeats_differ"] == 0

    def by_place(exact, rows):
        return exact + (rows == 0).nonzero().sum()

    table = measured(leaky=with_gradient(by_place)).plain["leaky"]["batch_invariance"]["table_gradient"]
    # Only row 0 stays where it is while others move.
    assert table["other_rows_permuted_differ"] == 8


def test_a_wrong_gradient_shows_in_accuracy():
    found = measured(
        right=with_gradient(lambda exact, rows: accuracy.rounded_to_bf16(exact)),
        wrong=with_gradient(lambda exact, rows: exact * 1.1),
        nan=with_gradient(lambda exact, rows: exact + float("nan")),
    ).plain
    at = {name: result["accuracy_latency"]["130"] for name, result in found.items()}
    assert at["right"]["grad_rel_err"]["table"] < 2**-8
    assert at["right"]["correctly_rounded"] == 1.0
    assert 0.09 < at["wrong"]["grad_rel_err"]["table"] < 0.11
    assert at["wrong"]["correctly_rounded"] < 0.5
    assert at["nan"]["grad_rel_err"]["table"] != at["nan"]["grad_rel_err"]["table"]
    assert all(result["fwd_rel_err"] == 0.0 for result in at.values())


def test_a_wrong_output_shows_in_accuracy_and_is_batch_invariant():
    def run(table, timestep, modality):
        return [chunk * 2.0 for chunk in diffusers(table, timestep, modality)]

    found = measured(doubled=Implementation("planted", run)).plain["doubled"]
    assert found["batch_invariance"]["batch_invariant"] is True
    assert found["accuracy_latency"]["33"]["fwd_rel_err"] == 1.0


def test_one_that_is_absent_or_fails_is_said_with_its_reason():
    def late(table, timestep, modality):
        if timestep.shape[0] == TINY.positions[0]:
            raise RuntimeError("no such size\nand more")
        return diffusers(table, timestep, modality)

    absent = make(["rl_kernel"], torch.device("cpu"))["rl_kernel"]
    assert isinstance(absent, Unavailable)
    plain = measured(rl_kernel=absent, late=Implementation("planted", late), right=right()).plain
    assert plain["rl_kernel"] == {"unavailable": "ModuleNotFoundError: No module named 'rl_engine'"}
    assert plain["late"] == {"unavailable": "accuracy at S = 33 failed with RuntimeError: no such size"}
    assert set(plain["right"]["accuracy_latency"]) == {"33", "130"}

    def few(table, timestep, modality):
        return diffusers(table, timestep, modality)[:5]

    def narrow(table, timestep, modality):
        return [output[:, :4] for output in diffusers(table, timestep, modality)]

    reference = accuracy.Reference.of(CASE.batch(33, 11), CASE.gradients(33, 9))
    for run in (few, narrow):
        assert "unavailable" in measured(planted=Implementation("planted", run)).plain["planted"]
        with pytest.raises(ValueError, match=r"the op has 6 of \(33, 8\)"):
            accuracy.measure(run, reference)


def test_one_float64_is_rounded_once():
    halfway = 1.0 + 2.0**-8
    exact = torch.tensor(
        [halfway, halfway + 2.0**-40, halfway + 2.0**-7, -halfway - 2.0**-40, 0.0, -0.0, 2.0**-133, 3.0 * 2.0**-134],
        dtype=torch.float64,
    )
    wanted = [1.0, 1.0 + 2.0**-7, 1.0 + 2.0**-6, -1.0 - 2.0**-7, 0.0, -0.0, 2.0**-133, 2.0**-132]
    rounded = accuracy.rounded_to_bf16(exact)
    assert torch.equal(rounded.view(torch.int16), torch.tensor(wanted, dtype=torch.bfloat16).view(torch.int16))
    # By way of float32 the second one is taken for halfway, and goes to even.
    assert exact.to(torch.bfloat16)[1] == 1.0
    generator = torch.Generator().manual_seed(1)
    floats = torch.randn(10_000, generator=generator)
    assert torch.equal(accuracy.rounded_to_bf16(floats.double()), floats.to(torch.bfloat16))


def test_bytes_are_compared():
    found = Differences(3, torch.device("cpu"))
    found.compare(0, torch.tensor([float("nan")]), torch.tensor([float("nan")]))
    found.compare(1, torch.tensor([0.0]), torch.tensor([-0.0]))
    assert found.read() == [False, True, False]


def test_calls_that_are_compared_together_are_told_apart():
    whole = [torch.arange(12.0).view(6, 2), torch.zeros(6, 2)]
    found = RowsOfWhole(whole, 4)
    found.add(0, torch.tensor([1, 5]), [whole[0][[1, 5]], whole[1][:2]])
    found.add(1, torch.tensor([2]), [whole[0][[3]], whole[1][:1]])
    found.add(3, torch.tensor([2, 4]), [whole[0][[2, 4]], torch.tensor([[0.0, 0.0], [0.0, -0.0]])])
    assert found.read() == [False, True, False, True]


def test_others_change_places_and_own_stay():
    own = torch.arange(100) % 3 == 0
    positions = shuffle_others(own, seed=5)
    assert sorted(positions.tolist()) == list(range(100))
    assert (positions[own] == torch.arange(100)[own]).all()
    assert (positions != torch.arange(100)).sum() > 50


def test_the_case_is_made_by_its_seeds_alone():
    batch, again, other = CASE.batch(20, 3), CASE.batch(20, 3), CASE.batch(20, 4)
    assert torch.equal(batch.table, again.table)
    assert not torch.equal(batch.table, other.table)
    assert batch.table.shape == (9, 6 * HIDDEN)
    assert 0.05 < batch.table.float().std() < 0.2
    first = CASE.gradients(20, 9)
    assert len(first) == 6
    assert not torch.equal(first[0], first[1])
