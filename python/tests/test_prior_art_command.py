"""The command: what it says, what it refuses, and what it leaves behind."""

import io
import os
import shutil
import stat
import subprocess

import pytest
import torch
from prior_art_case import CASE, TINY, right
from rowloom.prior_art import command, environment, measure, memory, output
from rowloom.prior_art.implementations import MAKERS, Unavailable
from rowloom.prior_art.progress import Progress
from rowloom.prior_art.reports import read


def test_a_run_that_fails_leaves_no_file(tmp_path, monkeypatch, capsys):
    def broken(*_):
        raise output.OutputError("no")

    monkeypatch.setattr(command, "measure", broken)
    arguments = ["--op", "adaln_row_gather", "--out", str(tmp_path / "r.json"), "--device", "cpu", "--implementations", "diffusers"]
    assert command.main(arguments) == 1
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr().err.endswith("error: no\n")


def test_the_full_protocol_on_a_cpu_is_asked_for_by_name(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(command, "make", lambda *_: pytest.fail("work was done"))
    assert command.main(["--op", "adaln_row_gather", "--out", str(tmp_path / "r.json")]) == 2
    assert "write --quick for a look, or --device cpu for all of it" in capsys.readouterr().err


def test_what_is_wrong_with_the_surroundings_costs_no_measurement(tmp_path, monkeypatch, capsys):
    def broken(*_):
        raise RuntimeError("no such file")

    monkeypatch.setattr(environment, "environment", broken)
    monkeypatch.setattr(command, "measure", lambda *_: pytest.fail("it was measured"))
    arguments = ["--op", "adaln_row_gather", "--out", str(tmp_path / "r.json"), "--device", "cpu", "--implementations", "diffusers"]
    assert command.main(arguments) == 1
    assert "no such file" in capsys.readouterr().err


def test_a_device_that_fails_is_one_sentence(tmp_path, monkeypatch, capsys):
    def broken(*_):
        raise RuntimeError("an illegal memory access was encountered\nmore")

    monkeypatch.setattr(command, "measure", broken)
    arguments = ["--op", "adaln_row_gather", "--out", str(tmp_path / "r.json"), "--device", "cpu", "--implementations", "diffusers"]
    assert command.main(arguments) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said == "error: the run ended without a report: RuntimeError: an illegal memory access was encountered"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--op", "row_gather", "--out", "r.json"], "invalid choice"),
        (["--quick"], "the following arguments are required: --out"),
        (["--op", "adaln_row_gather", "--out", "r.json", "--device", "tpu"], "tpu is no device here"),
        (["--op", "adaln_row_gather", "--out", "r.json", "--device", "cuda:99"], "cuda:99 is not there"),
        (["--op", "adaln_row_gather", "--out", "r.json", "--positions", "4,x"], "x is no number from 1"),
        (["--op", "adaln_row_gather", "--out", "r.json", "--positions", "99999999999999999999"], "from 1 to 4294967295"),
        (["--op", "adaln_row_gather", "--out", "r.json", "--hidden", "\u0663"], "from 1 to 4294967295"),
        (["--op", "adaln_row_gather", "--out", "r.json", "--layout", "blok"], "invalid choice"),
        (["--op", "adaln_row_gather", "--out", "r.json", "--implementations", "x"], "x is no implementation"),
    ],
)
def test_wrong_usage_is_2_and_says_why(arguments, why, capsys):
    with pytest.raises(SystemExit) as stopped:
        command.main(arguments)
    assert stopped.value.code == 2
    assert why in capsys.readouterr().err


def test_an_output_that_cannot_be_is_refused_before_any_work(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "make", lambda *_: pytest.fail("work was done"))
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    (tmp_path / "file").write_text("kept")
    (tmp_path / "beside-speed.svg").mkdir()
    for path, why in [
        ("no/r.json", "does not exist"),
        ("", "names a folder"),
        ("pipe", "is no regular file"),
        ("link", "is no regular file"),
        ("file/r.json", "does not exist"),
        ("x" * 300, "File name too long"),
        ("x" * 250, "File name too long"),
        ("beside.json", "names a folder"),
        ("a\0b", "cannot be written"),
    ]:
        assert command.main(["--op", "adaln_row_gather", "--out", f"{tmp_path}/{path}"]) == 2, path
        assert why in capsys.readouterr().err
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert (tmp_path / "file").read_text() == "kept"
    assert len(list(tmp_path.iterdir())) == 4


def test_what_a_cpu_has_no_memory_for_is_said_before_any_work(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "make", lambda *_: pytest.fail("work was done"))
    asked = ["--op", "adaln_row_gather", "--out", str(tmp_path / "r.json"), "--device", "cpu", "--hidden", "1"]
    monkeypatch.setattr(memory, "available_bytes", lambda: 4097 * (16 + 24) - 1)
    assert command.main([*asked, "--positions", "3,4097"]) == 1
    assert "S = 4097 with H = 1 takes" in capsys.readouterr().err
    assert memory.shortage(CASE, 1) is None


def test_help_has_examples(capsys):
    with pytest.raises(SystemExit) as stopped:
        command.main(["--help"])
    assert stopped.value.code == 0
    said = capsys.readouterr().out
    assert "python -m rowloom.prior_art --quick --out report.json" in said
    assert "--quick takes two to four minutes" in said


def test_the_command_as_a_whole(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "Protocol", type("Tiny", (), {"quick": staticmethod(lambda positions: TINY)}))
    path = tmp_path / "r.json"
    # The op that there is needs no name.
    asked = ["--out", str(path), "--quick", "--hidden", "8", "--device", "cpu"]
    assert command.main([*asked, "--layout", "block", "--implementations", "diffusers,diffusers_six,rl_kernel"]) == 0
    content = read(path)
    assert list(content["results"]["plain"]) == ["diffusers", "diffusers_six", "rl_kernel"]
    assert content["environment"]["layout"] == "block"
    assert content["protocol"]["hidden"] == 8
    assert content["protocol"]["positions"] == list(TINY.positions)
    assert content["complete"] is True
    captured = capsys.readouterr()
    assert "batch invariant" in captured.out
    assert "diffusers_six: checks:" in captured.err
    assert not any(found.name.startswith(".rowloom-") for found in tmp_path.iterdir())


def test_who_is_cut_off_has_the_sizes_that_were_done(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "Protocol", type("Tiny", (), {"quick": staticmethod(lambda positions: TINY)}))
    at_size, done = measure.at_size, []

    def cut_off(field, runs, positions, *rest):
        if done:
            raise KeyboardInterrupt
        done.append(positions)
        return at_size(field, runs, positions, *rest)

    monkeypatch.setattr(measure, "at_size", cut_off)
    path = tmp_path / "r.json"
    asked = ["--op", "adaln_row_gather", "--out", str(path), "--quick", "--hidden", "8", "--device", "cpu"]
    with pytest.raises(KeyboardInterrupt):
        command.main([*asked, "--implementations", "diffusers"])
    content = read(path)
    assert content["complete"] is False
    assert list(content["results"]["plain"]["diffusers"]["accuracy_latency"]) == [str(done[0])]
    assert content["results"]["plain"]["diffusers"]["batch_invariance"]["batch_invariant"] in (True, False)


def test_a_missing_rowloom_is_a_failure_that_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "Protocol", type("Tiny", (), {"quick": staticmethod(lambda positions: TINY)}))
    monkeypatch.setattr(command, "make", lambda names, device: {"rowloom": Unavailable("broken"), "x": right()})
    path = tmp_path / "r.json"
    assert command.main(["--op", "adaln_row_gather", "--out", str(path), "--quick", "--device", "cpu", "--hidden", "8"]) == 1
    assert capsys.readouterr().err.endswith("error: rowloom was not measured: broken\n")
    assert read(path)["results"]["plain"]["rowloom"] == {"unavailable": "broken"}


def test_progress_moves_on_a_terminal_and_is_a_line_each_elsewhere():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for stream in (io.StringIO(), Terminal()):
        progress = Progress(stream)
        progress.begin("diffusers: checks", 3)
        progress.tick(3)
        progress.end("unavailable: no")
        text = stream.getvalue()
        assert ("\r" in text) == stream.isatty()
        assert text.endswith("diffusers: checks: 0.0 s, unavailable: no\n")
        assert text.startswith("diffusers: checks\n") != stream.isatty()


def test_the_commit_is_that_of_the_repository_or_told(tmp_path, monkeypatch):
    if shutil.which("git") is None:
        pytest.skip("skipped: no git")

    def git(*arguments):
        author = ("-c", "user.name=a", "-c", "user.email=a@b")
        done = subprocess.run(["git", *author, "-C", tmp_path, *arguments], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    package, installed = tmp_path / environment.THIS_FILE, tmp_path / "venv" / environment.THIS_FILE.name
    for file in (package, installed):
        file.parent.mkdir(parents=True)
        file.write_text("")
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "first")
    head = git("rev-parse", "HEAD")
    monkeypatch.delenv("ROWLOOM_COMMIT", raising=False)
    monkeypatch.setattr(environment, "__file__", str(package))
    assert environment.commit() == (head, False)
    (tmp_path / "untracked").write_text("")
    assert environment.commit() == (head, False)
    package.write_text("edited")
    assert environment.commit() == (head, True)
    monkeypatch.setenv("ROWLOOM_COMMIT", "abc-dirty")
    assert environment.commit() == (head, True), "what git says comes first"
    # Somewhere in a repository that may be another one.
    monkeypatch.setattr(environment, "__file__", str(installed))
    assert environment.commit() == ("abc", True)
    monkeypatch.delenv("ROWLOOM_COMMIT")
    assert environment.commit() == (None, None)


def test_every_implementation_of_the_manual_has_a_maker():
    assert set(MAKERS) == {
        *("rowloom", "rowloom_f64", "rowloom_checked", "rowloom_deferred"),
        *("diffusers", "diffusers_six", "torch_compile", "rl_kernel"),
    }
