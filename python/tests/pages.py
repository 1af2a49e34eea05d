"""The repository's pages whose examples are run."""

import re
from pathlib import Path

HERE = Path(__file__).resolve()

PLACES = [place for folder in HERE.parents for place in (folder, folder / "pages")]
"""Where pages may lie: in the repository, or beside the tests where those are laid out to be run."""

PAGES = next(place for place in PLACES if (place / "docs/python.md").is_file())


def examples(page: str) -> list[str]:
    """The Python examples of a page, by its path in the repository."""
    text = (PAGES / page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)


def run(example: str, names: dict[str, object]) -> dict[str, object]:
    """Runs an example over these names; the names that there are then."""
    names["__name__"] = "example"
    exec(compile(example, "an example", "exec"), names)
    return names
