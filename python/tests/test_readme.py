"""The README's Python example runs as it stands."""

import re
from pathlib import Path

import pytest

# Beside the tests where they are laid out to be run, else at the root of the repository.
README = next(folder / "README.md" for folder in Path(__file__).parents if (folder / "README.md").is_file())


def test_the_example_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch", reason="skipped: no torch: the README's example trains with it")
    blocks = re.findall(r"^```python\n(.*?)^```$", README.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    assert len(blocks) == 1, "the README has one Python example"
    exec(compile(blocks[0], str(README), "exec"), {"__name__": "readme"})
    assert "loss" in capsys.readouterr().out
