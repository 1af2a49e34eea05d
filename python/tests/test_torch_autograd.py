"""Derivatives of eager calls: what autograd may do with them, and what it must refuse."""

import copy
import pickle
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from torch_cases import ROWS, all_same_bytes, gathered, normal, packed, same_bytes, summed

import rowloom.torch as rt

f = rt.adaln_row_gather


def gradient_of(timestep: Tensor, modality: Tensor, cotangents: list[Tensor]) -> Tensor:
    row = (timestep * 3 + modality).cpu()
    return torch.cat([summed(cotangent.cpu(), row, ROWS) for cotangent in cotangents], dim=1)


def test_outputs_are_no_views_and_may_be_edited(device: str) -> None:
    table, timestep, modality = packed(20, 8, device)
    table.requires_grad_()
    outputs = f(table, timestep, modality)
    assert not any(output._is_view() for output in outputs)
    outputs[0].mul_(2)
    assert [output._version for output in outputs] == [1, 0, 0, 0, 0, 0]
    cotangents = [normal((20, 8), device, seed=seed) for seed in range(6)]
    torch.autograd.backward(outputs, cotangents)
    assert table.grad is not None
    cotangents[0] = cotangents[0] * 2
    assert same_bytes(table.grad, gradient_of(timestep, modality, cotangents))


@pytest.mark.parametrize("used", [[0], [5], [1, 4]])
def test_an_unused_output_is_zeros(device: str, used: list[int]) -> None:
    table, timestep, modality = packed(300, 8, device)
    table.requires_grad_()
    outputs = f(table, timestep, modality)
    given = [normal((300, 8), device, seed=at) for at in used]
    torch.autograd.backward([outputs[at] for at in used], given)
    cotangents = [torch.zeros(300, 8) for _ in range(6)]
    for at, cotangent in zip(used, given, strict=True):
        cotangents[at] = cotangent
    assert table.grad is not None
    assert same_bytes(table.grad, gradient_of(timestep, modality, cotangents))


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "transposed": lambda x: x.t().contiguous().t(),
    "one row expanded": lambda x: x[:1].expand(x.shape),
    "one number expanded": lambda x: x[:1, :1].expand(x.shape),
    "every other row": lambda x: torch.cat([x, x], dim=1).view(2 * x.shape[0], -1)[::2],
    "odd stride": lambda x: torch.cat([x, x[:, :1]], dim=1)[:, :-1],
    "offset by one": lambda x: torch.cat([x.new_zeros(1), x.flatten()])[1:].view(x.shape),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_cotangent_is_read_in_logical_order(device: str, layout: str) -> None:
    table, timestep, modality = packed(70, 6, device)
    table.requires_grad_()
    cotangents = [LAYOUTS[layout](normal((70, 6), device, seed=seed)) for seed in range(6)]
    torch.autograd.backward(f(table, timestep, modality), cotangents)
    assert table.grad is not None
    assert same_bytes(table.grad, gradient_of(timestep, modality, cotangents))
    (direct,) = f.backward(cotangents, table, timestep, modality)
    assert same_bytes(direct, table.grad)


def test_a_graph_may_be_kept_used_twice_and_hooked(device: str) -> None:
    table, timestep, modality = packed(70, 6, device)
    table.requires_grad_()
    seen: list[Tensor] = []
    table.register_hook(seen.append)
    outputs = f(table, timestep, modality)
    cotangents = [normal((70, 6), device, seed=seed) for seed in range(6)]
    expected = gradient_of(timestep, modality, cotangents)
    torch.autograd.backward(outputs, cotangents, retain_graph=True)
    torch.autograd.backward(outputs, cotangents)
    assert table.grad is not None
    assert same_bytes(table.grad, expected + expected)
    assert all_same_bytes(seen, [expected, expected])
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.backward(outputs, cotangents)


def test_a_table_used_by_two_calls_gets_both_gradients(device: str) -> None:
    table, timestep, modality = packed(70, 6, device)
    table.requires_grad_()
    first = f(table, timestep, modality)
    second = f(table, timestep.flip(0), modality)
    cotangents = [normal((70, 6), device, seed=seed) for seed in range(6)]
    torch.autograd.backward([*first, *second], [*cotangents, *cotangents])
    both = [gradient_of(timestep, modality, cotangents), gradient_of(timestep.flip(0), modality, cotangents)]
    assert table.grad is not None
    assert same_bytes(table.grad, both[0] + both[1])


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("check", ["now", "deferred"])
def test_checkpoint_recomputes(device: str, reentrant: bool, check: str) -> None:
    table, timestep, modality = packed(70, 6, device)
    table.requires_grad_()

    def block(table: Tensor) -> Tensor:
        shift, scale, *_ = f(table, timestep, modality, check=check)
        return shift * 2 + scale

    gradients = []
    for run in (block, lambda table: checkpoint(block, table, use_reentrant=reentrant)):
        table.grad = None
        run(table).backward(normal((70, 6), device))
        gradients.append(table.grad)
    assert gradients[0] is not None
    assert gradients[1] is not None
    assert same_bytes(gradients[1], gradients[0])


def test_the_gradient_is_that_of_the_indices_the_forward_saw(device: str) -> None:
    table, timestep, modality = packed(70, 6, device)
    table.requires_grad_()
    cotangents = [normal((70, 6), device, seed=seed) for seed in range(6)]
    expected = gradient_of(timestep, modality, cotangents)
    plan = f.plan(timestep, modality, rows=ROWS)
    for given in (None, plan):
        mine = timestep.clone()
        outputs = f(table, mine, modality, plan=given)
        mine.add_(1).remainder_(3)
        (gradient,) = torch.autograd.grad(outputs, table, cotangents)
        assert same_bytes(gradient, expected)


@pytest.mark.parametrize("off", [True, False])
def test_without_a_plan_an_edit_between_forward_and_backward_is_refused(device: str, off: bool) -> None:
    table, timestep, modality = packed(70, 6, device)
    table.requires_grad_()
    with rt.auto_plans(not off):
        outputs = f(table, timestep, modality, check="now" if off else "deferred")
        timestep.zero_()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            outputs[0].sum().backward()
    rt.synchronize()


def test_an_edited_plan_is_refused(device: str) -> None:
    table, timestep, modality = packed(70, 6, device)
    table.requires_grad_()
    plan = f.plan(timestep, modality, rows=ROWS)
    outputs = f(table, timestep, modality, plan=plan)
    plan.state.zero_()
    with pytest.raises(ValueError, match="the state of a plan was edited"):
        outputs[0].sum().backward()
    with pytest.raises(ValueError, match="the state of a plan was edited"):
        f(table, timestep, modality, plan=plan)


def test_a_table_may_be_edited_after_the_forward(device: str) -> None:
    table, timestep, modality = packed(70, 6, device)
    table.requires_grad_()
    outputs = f(table, timestep, modality)
    with torch.no_grad():
        table.zero_()
    outputs[0].sum().backward()


def test_what_needs_no_gradient_saves_nothing(device: str) -> None:
    table, timestep, modality = packed(70, 6, device)
    assert f(table, timestep, modality)[0].grad_fn is None
    table.requires_grad_()
    with torch.no_grad():
        assert not f(table, timestep, modality)[0].requires_grad
    saved: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x) or x, lambda x: x):
        f(table, timestep, modality)
    assert not saved, "a plan is no tensor of the graph"


def test_saved_tensors_may_be_moved(device: str) -> None:
    table, timestep, modality = packed(70, 6, device)
    table.requires_grad_()
    cotangents = [normal((70, 6), device, seed=seed) for seed in range(6)]
    for check in ("now", "deferred"):
        with torch.autograd.graph.save_on_cpu():
            outputs = f(table, timestep, modality, check=check)
        (gradient,) = torch.autograd.grad(outputs, table, cotangents)
        assert same_bytes(gradient, gradient_of(timestep, modality, cotangents))


def test_inference_tensors_are_checked_not_planned(device: str) -> None:
    table, timestep, modality = packed(70, 6, device)
    with torch.inference_mode():
        mine = timestep.clone()
        expected = gathered(table, mine, modality)
        assert all_same_bytes(f(table, mine, modality), expected)
        assert rt.plan_stats().entries == 0
        assert all_same_bytes(f(table, timestep, modality), expected)
        assert rt.plan_stats().entries == 1
        mine[3] = 3
        with pytest.raises(IndexError, match=r"timestep\[3\]"):
            f(table, mine, modality)
    table.requires_grad_()
    with torch.inference_mode():
        frozen = timestep.clone()
    (gradient,) = torch.autograd.grad(f(table, frozen, modality)[0].sum(), table)
    ones = [torch.ones(70, 6)] + [torch.zeros(70, 6)] * 5
    assert same_bytes(gradient, gradient_of(timestep, modality, ones))


@pytest.mark.parametrize("how", ["automatic", "by hand", "repeated", "copied"])
def test_a_plan_made_in_inference_mode_trains(device: str, how: str) -> None:
    table, timestep, modality = packed(70, 6, device)
    plan = None
    with torch.inference_mode():
        f(table, timestep, modality)
        if how != "automatic":
            plan = f.plan(timestep, modality, rows=ROWS)
        if how == "copied":
            plan = copy.deepcopy(plan)
        if how == "repeated":
            plan = f.plan(timestep[:35], modality[:35], rows=ROWS).repeat(2)
    if how == "repeated":
        timestep, modality = timestep[:35].repeat(2), modality[:35].repeat(2)
    cotangents = [normal((70, 6), device, seed=seed) for seed in range(6)]
    table.requires_grad_()
    (gradient,) = torch.autograd.grad(f(table, timestep, modality, plan=plan), table, cotangents)
    assert same_bytes(gradient, gradient_of(timestep, modality, cotangents))


def test_autocast_changes_no_type(device: str) -> None:
    table, timestep, modality = packed(70, 6, device)
    with torch.autocast(device, dtype=torch.bfloat16):
        assert all_same_bytes(f(table, timestep, modality), gathered(table, timestep, modality))


def test_a_table_that_is_no_leaf(device: str) -> None:
    table, timestep, modality = packed(70, 6, device)
    table.requires_grad_()
    cotangents = [normal((70, 6), device, seed=seed) for seed in range(6)]
    torch.autograd.backward(f(table * 2, timestep, modality), cotangents)
    assert table.grad is not None
    assert same_bytes(table.grad, gradient_of(timestep, modality, cotangents) * 2)


def test_a_second_derivative_is_refused_where_it_is_asked_for(device: str) -> None:
    table, timestep, modality = packed(70, 6, device)
    table.requires_grad_()
    loss = (f(table, timestep, modality)[0] ** 2).sum()
    (gradient,) = torch.autograd.grad(loss, table, create_graph=True)
    assert gradient.requires_grad
    with pytest.raises(RuntimeError, match="adaln_row_gather has a first derivative only"):
        gradient.sum().backward()
    cotangents = [normal((70, 6), device, seed=seed).requires_grad_() for seed in range(6)]
    (gradient,) = f.backward(cotangents, table, timestep, modality)
    with pytest.raises(RuntimeError, match="adaln_row_gather has a first derivative only"):
        gradient.sum().backward()


def test_gradients_of_another_type_need_torch_to_know(device: str) -> None:
    table, timestep, modality = packed(900, 8, device, torch.bfloat16)
    table.requires_grad_()
    with pytest.raises(ValueError, match="table.grad_dtype = torch.float32"):
        f(table, timestep, modality, gradient_dtype=torch.float32)
    if not hasattr(table, "grad_dtype"):
        pytest.skip("skipped: this torch has no Tensor.grad_dtype")
    table.grad_dtype = torch.float32
    cotangents = [normal((900, 8), device, torch.bfloat16, seed) for seed in range(6)]
    torch.autograd.backward(f(table, timestep, modality, gradient_dtype=torch.float32), cotangents)
    assert table.grad is not None
    assert same_bytes(table.grad, gradient_of(timestep, modality, [x.float() for x in cotangents]))


def test_forward_mode_is_refused_not_dropped(device: str) -> None:
    table, timestep, modality = packed(70, 6, device)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(table, torch.ones_like(table))
        with pytest.raises(NotImplementedError, match="adaln_row_gather has no forward-mode derivative"):
            f(dual, timestep, modality)
        assert all_same_bytes(f(table, timestep, modality), gathered(table, timestep, modality))


def test_transforms_see_an_op(device: str) -> None:
    table, timestep, modality = packed(70, 6, device)
    # torch differentiates no op of torch.library within torch.func.
    with pytest.raises(RuntimeError):
        torch.func.grad(lambda table: f(table, timestep, modality)[2].sum())(table)
    tables = torch.stack([table, table.flip(0)])
    mapped = torch.func.vmap(lambda table: f(table, timestep, modality)[2])(tables)
    assert all_same_bytes(list(mapped), [gathered(each, timestep, modality)[2] for each in tables])


def test_a_plan_is_copied_but_not_pickled(device: str) -> None:
    table, timestep, modality = packed(70, 6, device)
    plan = copy.deepcopy(f.plan(timestep, modality, rows=ROWS))
    assert all_same_bytes(f(table, timestep, modality, plan=plan), gathered(table, timestep, modality))
    with pytest.raises(TypeError, match="make it anew from the indices"):
        pickle.dumps(plan)


def test_backward_gives_what_is_wanted(device: str) -> None:
    rows = normal((70, 6), device)
    row = torch.zeros(70, dtype=torch.int64, device=device)
    cotangent = normal((2, 6), device)
    (gradient,) = rt.row_scatter_sum.backward(cotangent, rows, row, R=2, wants=("rows",))
    assert same_bytes(gradient, cotangent[row])
    with pytest.raises(ValueError, match="has no gradient of 'row'; it has those of rows"):
        rt.row_scatter_sum.backward(cotangent, rows, row, R=2, wants=("row",))
    table, timestep, modality = packed(70, 6, device)
    first = normal((70, 6), device)
    (gradient,) = f.backward([None, first, None, None, None, None], table, timestep, modality)
    zeros = torch.zeros(70, 6)
    assert same_bytes(gradient, gradient_of(timestep, modality, [zeros, first, zeros, zeros, zeros, zeros]))
    with pytest.raises(TypeError, match="takes 6 cotangents, not 1"):
        f.backward(first, table, timestep, modality)
