"""The Python examples of both READMEs run as they stand."""

import pytest
from pages import examples, run


def only_example(page: str) -> str:
    pytest.importorskip("torch", reason=f"skipped: no torch: the example of {page} is of it")
    found = examples(page)
    assert len(found) == 1, f"{page} has one Python example"
    return found[0]


def test_the_example_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    run(only_example("README.md"), {})
    assert "loss" in capsys.readouterr().out


def test_the_example_of_the_package_runs() -> None:
    names = run(only_example("python/README.md"), {})
    assert names["gate"].shape == (1000, 64)
    assert names["gate"].requires_grad
