"""The examples of docs/python.md run as they stand, over the same arrays."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pages import examples, run

PAGE = "docs/python.md"

OF_WHAT = ["rowloom.__version__", "from rowloom import numpy", "from rowloom import torch", "import my_kernels"]
"""A word of each example, in order. The last needs a module that the reader builds."""


def test_every_example_is_known() -> None:
    found = examples(PAGE)
    assert len(found) == len(OF_WHAT)
    assert all(word in example for word, example in zip(OF_WHAT, found, strict=True))


def arrays() -> dict[str, NDArray[Any]]:
    """What the examples take for given: S = 7 positions, R = 9 rows, H = 4 columns."""
    generator = np.random.default_rng(1)
    return {
        "table": generator.standard_normal((9, 24), np.float32),
        "timestep": generator.integers(0, 3, 7),
        "modality": generator.integers(0, 3, 7),
        "rows": generator.standard_normal((7, 4), np.float32),
        "row": generator.integers(0, 9, 7),
    }


def test_the_first_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    run(examples(PAGE)[0], {})
    assert "adaln_row_gather" in capsys.readouterr().out


def test_the_example_of_numpy_runs() -> None:
    given = arrays()
    names = run(examples(PAGE)[1], dict(given))
    place = given["timestep"] * 3 + given["modality"]
    assert len(names["out"]) == 6
    for chunk, out in enumerate(names["out"]):
        assert np.array_equal(out, given["table"][place, 4 * chunk : 4 * chunk + 4])
    assert names["d_table"].shape == (9, 24)
    assert names["sums"].shape == (9, 4)


def test_the_example_of_torch_runs() -> None:
    torch = pytest.importorskip("torch", reason="skipped: no torch: an example of docs/python.md is about it")
    given = {name: torch.from_numpy(array) for name, array in arrays().items()}
    names = run(examples(PAGE)[2], dict(given))
    place = given["timestep"] * 3 + given["modality"]
    assert torch.equal(names["gate"], given["table"][place, 8:12])
    assert len(names["of_the_mlp"]) == 3
    for chunk, out in enumerate(names["six"]):
        assert torch.equal(out, given["table"][place, 4 * chunk : 4 * chunk + 4])
    assert names["sums"].shape == (9, 4)
    assert names["exact"](given["table"], given["timestep"], given["modality"])[0].shape == (7, 4)
