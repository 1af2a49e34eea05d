"""What PyTorch counts as an edit, which is all that shows one on a GPU, and what a user says where it counts none."""

from collections.abc import Callable, Iterator

import pytest
import torch
import torch.distributed as distributed
from rowloom import torch as rt
from rowloom.torch import plans, private
from torch import Tensor
from torch_cases import all_same_bytes, gathered, packed


def key(index: Tensor) -> object:
    """What the plan of an index is found by."""
    return plans.key_of("a kernel", 0, [index], 9, 0, 1)


@pytest.fixture
def group() -> Iterator[None]:
    """A process group of this process alone."""
    if not (distributed.is_available() and distributed.is_gloo_available()):
        pytest.skip("skipped: no gloo in this torch")
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


Collective = Callable[[Tensor, Tensor], object]

SILENT: dict[str, Collective] = {
    "broadcast": lambda index, _: distributed.broadcast(index, 0),
    "all_reduce": lambda index, _: distributed.all_reduce(index),
    "reduce": lambda index, _: distributed.reduce(index, 0),
    "scatter": lambda index, other: distributed.scatter(index, [other]),
    "all_to_all_single": lambda index, other: distributed.all_to_all_single(index, other),
}
"""Collectives that docs/python.md names as writes that no version shows."""

COUNTED: dict[str, Collective] = {
    "all_gather": lambda index, other: distributed.all_gather([index], other),
    "all_gather_into_tensor": lambda index, other: distributed.all_gather_into_tensor(index, other),
    "reduce_scatter_tensor": lambda index, other: distributed.reduce_scatter_tensor(index, other),
}
"""Those that it names as counted."""


@pytest.mark.parametrize("name", [*SILENT, *COUNTED])
def test_which_collectives_count_as_edits(group: None, name: str) -> None:
    index, other = torch.tensor([0, 1, 2]), torch.tensor([2, 1, 0])
    before, known = key(index), private.version(index)
    {**SILENT, **COUNTED}[name](index, other)
    counts = private.version(index) != known
    assert counts == (name in COUNTED), f"torch {torch.__version__} has changed: docs/python.md says otherwise"
    assert (key(index) != before) == counts


def test_an_edit_that_no_version_shows_can_be_told() -> None:
    index = torch.tensor([0, 1, 2])
    before = key(index)
    index.data[0] = 2
    assert key(index) == before
    torch.autograd.graph.increment_version(index)
    assert key(index) != before


def test_the_telling_leaves_the_old_plan_on_a_gpu_too(cuda: str) -> None:
    table, timestep, modality = packed(300, 8, cuda)
    for _ in range(3):
        rt.adaln_row_gather(table, timestep, modality)
    timestep.data.copy_(timestep.flip(0))
    torch.autograd.graph.increment_version(timestep)
    assert all_same_bytes(rt.adaln_row_gather(table, timestep, modality), gathered(table, timestep, modality))
