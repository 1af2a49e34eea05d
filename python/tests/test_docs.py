"""The examples of docs/python.md run as they are printed."""

import numpy as np
import pytest
from pages import examples, run

PAGE = "docs/python.md"

OF_WHAT = ["rowloom.__version__", "from rowloom import numpy", "from rowloom import torch", "import my_kernels"]
"""A word of each example, in order. The last needs a module that the reader builds."""


def test_every_example_is_known() -> None:
    found = examples(PAGE)
    assert len(found) == len(OF_WHAT)
    assert all(word in example for word, example in zip(OF_WHAT, found, strict=True))


def test_the_first_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    run(examples(PAGE)[0], {})
    assert "adaln_row_gather" in capsys.readouterr().out


def test_the_example_of_numpy_runs() -> None:
    names = run(examples(PAGE)[1], {})
    assert len(names["out"]) == 6
    for chunk, out in enumerate(names["out"]):
        place = names["timestep"] * 3 + names["modality"]
        assert np.array_equal(out, names["table"][place, 64 * chunk : 64 * chunk + 64])
    assert names["d_table"].shape == (9, 384)
    assert names["sums"][:, 0].tolist() == [1000.0, *[0.0] * 8]


def test_the_example_of_torch_runs() -> None:
    torch = pytest.importorskip("torch", reason="skipped: no torch: an example of docs/python.md is about it")
    names = run(examples(PAGE)[2], {})
    place = names["timestep"] * 3 + names["modality"]
    assert torch.equal(names["gate"], names["table"][place, 128:192])
    assert len(names["of_the_mlp"]) == 3
    for chunk, out in enumerate(names["six"]):
        assert torch.equal(out, names["table"][place, 64 * chunk : 64 * chunk + 64])
    assert names["sums"].shape == (9, 64)
    assert names["exact"](names["table"], names["timestep"], names["modality"])[0].shape == (1000, 64)
