"""The file: its schema, its figures, its tables."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from prior_art_case import CASE, DATA, REPOSITORY, TINY, measured, right, with_gradient
from rowloom.prior_art import figures, output, report, table
from rowloom.prior_art.implementations import Unavailable
from rowloom.prior_art.latency import EMPTY
from rowloom.prior_art.reports import NoReport, read
from rowloom.prior_art.summary import summary

PUBLISHED = REPOSITORY / DATA
H200 = REPOSITORY / "evidence/h200/adaln_row_gather.json"
ROWLOOM = REPOSITORY / "target/debug/rowloom"


def needed(path):
    """A file of the repository; a bundle of tests on another machine has none."""
    if not path.is_file():
        pytest.skip(f"skipped: no {path.relative_to(REPOSITORY)} here")
    return path


@pytest.fixture(scope="module")
def content():
    """A tiny report, as it is read back."""
    found = measured(
        rowloom=right(), doubled=with_gradient(lambda exact, rows: exact * 2), rl_kernel=Unavailable("not installed")
    )
    return json.loads(output.to_json(report.build(report.head(CASE, TINY, True), found)))


def as_on_a_gpu(content):
    """A copy with what only a GPU has."""
    content = json.loads(json.dumps(content))
    memory = {"read_gb_s": 2.0, "write_gb_s": 12.48, "copy_gb_s": 3.0}
    content["environment"]["ceilings"] = {"130": {**memory, "event_pair_us": 8.0, "smallest_op_us": 14.25}}
    at = content["results"]["plain"]["rowloom"]["accuracy_latency"]["130"]
    at["kernel_us"] = {"forward": 2.0, "backward": None}
    at["plan_waited_us"], at["plan_us"] = 31.25, 14.0
    return content


def keys(value):
    """All ways through the keys of a file."""
    if not isinstance(value, dict):
        return {()}
    return {(key, *rest) for key, item in value.items() for rest in keys(item)} or {()}


def test_the_package_has_the_published_file():
    assert Path(report.__file__).with_name("published_b200.json").read_bytes() == needed(PUBLISHED).read_bytes()


def test_every_published_key_is_there(content):
    published = report.published()
    assert [key for key in content if key in published] == list(published)
    assert keys(published["environment"]) <= keys(content["environment"])
    ours, theirs = content["results"]["plain"]["rowloom"], published["results"]["plain"]["rl_kernel"]
    assert list(ours) == list(theirs)
    assert set(theirs["batch_invariance"]) <= set(ours["batch_invariance"])
    assert ours["batch_invariance"]["batch_size_sweep"].keys() == theirs["batch_invariance"]["batch_size_sweep"].keys()
    pieces = ours["batch_invariance"]["full_vs_sub_batches"]
    assert pieces.keys() == theirs["batch_invariance"]["full_vs_sub_batches"].keys()
    assert set(theirs["accuracy_latency"]["4097"]) <= set(ours["accuracy_latency"]["33"])
    assert content["kind"] == "h3_prior_art"
    assert content["rfc"] == "RL-Align/RL-Kernel#420"


def test_keys_are_those_of_the_rust_side(content):
    rust = json.loads(needed(H200).read_text())
    assert set(rust) | {"complete"} == set(content)
    assert set(rust["environment"]) <= set(content["environment"])
    assert set(rust["protocol"]) <= set(content["protocol"])
    ours, theirs = content["results"]["plain"]["rowloom"], rust["results"]["plain"]["rowloom"]
    assert ours["batch_invariance"].keys() == theirs["batch_invariance"].keys()
    assert ours["batch_invariance"]["table_gradient"].keys() == theirs["batch_invariance"]["table_gradient"].keys()
    assert set(theirs["accuracy_latency"]["4097"]) <= set(ours["accuracy_latency"]["33"])
    assert set(EMPTY) <= set(ours["accuracy_latency"]["33"])


def test_the_rust_command_reads_it(content, tmp_path):
    path = tmp_path / "torch.json"
    path.write_text(json.dumps(content))
    done = subprocess.run([needed(ROWLOOM), "compare", path, needed(PUBLISHED)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = {line.split("  ")[0]: line for line in done.stdout.splitlines()}
    assert lines["batch invariant"].split()[2:] == ["yes", "yes", "unavailable", "no", "yes"]
    assert "0 of 42" in lines["positions alone, differ"]
    assert f"0 of {TINY.comparisons()}" in lines["sweep, differ"]
    assert "0 of 3" in lines["sums repeated, differ"]
    assert any(line.startswith("S = 130: fwd_bwd_us") for line in lines)


def test_a_link_stays_one_and_what_it_leads_to_is_written(tmp_path):
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    for content in (b"new", b"newer"):
        output.write(tmp_path / "link.json", content)
        assert (tmp_path / "link.json").is_symlink()
        assert (tmp_path / "real.json").read_bytes() == content


def test_what_json_has_no_number_for_is_a_word():
    written = json.loads(output.to_json({"a": [math.nan, math.inf, -math.inf, 1.5, None, True]}))
    assert written == {"a": ["NaN", "inf", "-inf", 1.5, None, True]}


def test_the_summary_has_the_published_figures_beside_ours(content):
    text = summary(content, report.published())
    line = next(line for line in text.splitlines() if line.startswith("S = 4097: grad_rel_err"))
    assert line.endswith("2.51e-03")
    assert "rl_kernel is unavailable: not installed" in text
    assert "rl_kernel, published (NVIDIA B200)" in text
    of_130 = [line.split("  ")[0] for line in summary(as_on_a_gpu(content), report.published()).splitlines()]
    first = of_130.index("S = 130: fwd_us")
    assert of_130[first : first + 3] == ["S = 130: fwd_us", "S = 130: plan_waited_us", "S = 130: plan_us"]


def test_rows_of_markdown(content, tmp_path, capsys):
    path = tmp_path / "torch.json"
    path.write_text(json.dumps(as_on_a_gpu(content)))
    assert table.main([str(path)]) == 0
    text = capsys.readouterr().out
    row = next(line for line in text.splitlines() if line.startswith("| 130 | `rowloom` |"))
    # 130 positions of 96 bytes in 2 µs are 6.24 GB/s.
    assert "| 2.0 (50 %); - |" in row
    columns = next(line for line in text.splitlines() if line.startswith("| S |")).split(" | ")
    first_use = columns.index("plan, once a layout: waited for; behind a delay, µs")
    assert columns[first_use - 1] == "forward, µs"
    assert row.split(" | ")[first_use] == "31.2; 14.0"
    assert "GB/s: read 2, write 12, copy 3. Between two events, µs: nothing 8.0, torch's smallest op 14.2." in text
    widths = {line.count("|") for line in text.splitlines() if line.startswith("| S |") or line.startswith("| 130")}
    assert len(widths) == 1
    assert "`rl_kernel` is unavailable: not installed" in text
    path.write_text(json.dumps(report.published()))
    assert table.main([str(path)]) == 0
    assert table.main([str(tmp_path / "none.json")]) == 1
    assert "cannot be read" in capsys.readouterr().err


def test_figures_lie_beside_the_report_and_can_be_drawn_again(content, tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="skipped: no matplotlib")
    path = tmp_path / "torch.json"
    path.write_text(json.dumps(as_on_a_gpu(content)))
    assert figures.main([str(path)]) == 0
    names = {f"torch-{kind}.{end}" for kind in ("speed", "accuracy") for end in ("png", "svg")}
    assert {found.name for found in tmp_path.iterdir()} == names | {"torch.json"}
    assert (tmp_path / "torch-speed.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (tmp_path / "torch-accuracy.svg").read_bytes()
    assert figures.main([str(tmp_path / "none.json")]) == 1


def test_without_matplotlib_one_line_says_so(content, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    lines = figures.beside(tmp_path / "torch.json", content)
    assert len(lines) == 1
    assert "matplotlib is not installed" in lines[0]
    assert list(tmp_path.iterdir()) == []


def test_ceiling_lines_are_what_must_be_moved(content):
    content = as_on_a_gpu(content)
    moved = 130 * CASE.bytes_per_position()
    needed = figures.ceiling_lines(content, "130")
    assert needed["fwd_us"] == pytest.approx(moved / 12.48e3)
    assert needed["fwd_bwd_us"] == pytest.approx(2 * moved / 12.48e3 + moved / 2e3)
    assert figures.ceiling_lines(content, "33") == {}


def test_what_is_no_report_says_why(tmp_path):
    path = tmp_path / "x.json"
    for text, why in [("{", "no JSON"), ("[]", "no op"), ('{"op": "x", "results": {"plain": {}}}', "results.plain")]:
        path.write_text(text)
        with pytest.raises(NoReport, match=why):
            read(path)


def test_a_file_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "report.json"
    output.write(path, b"old")

    def broken(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(output.OutputError, match=r"report.json cannot be written: No space left on device"):
        output.write(path, b"new")
    assert path.read_bytes() == b"old"
    assert [found.name for found in tmp_path.iterdir()] == ["report.json"]
