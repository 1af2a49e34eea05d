"""The command: what is asked for, the run, and the files."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

from rowloom.prior_art import figures, layouts, memory, output, report
from rowloom.prior_art.implementations import MAKERS, because, make
from rowloom.prior_art.inputs import Case
from rowloom.prior_art.measure import Measured, measure
from rowloom.prior_art.progress import Progress
from rowloom.prior_art.protocol import Protocol
from rowloom.prior_art.reports import unavailable
from rowloom.prior_art.summary import summary

EXAMPLES = """On two cores --quick takes two to four minutes, and all of it on a CPU the better part of an hour or more; --positions and
--implementations ask for less. A size that is done is in the file at once.

examples:
  python -m rowloom.prior_art --quick --out report.json
  python -m rowloom.prior_art --device cuda:0 --out report.json
  python -m rowloom.prior_art --layout t2va-15s --positions 4097,109952 --out report.json
"""

NO_GPU = (
    "error: torch finds no GPU, and on a CPU the full protocol takes many GiB and the better part of an hour or more; "
    "write --quick for a look, or --device cpu for all of it"
)

MOST = 2**32 - 1
"""Positions, and columns."""

LARGEST = 131_072
LARGEST_NEEDS_BYTES = 80 << 30
"""Of device memory that is free, at H = 5376: outputs, gradients and copies of both, twice."""


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="python -m rowloom.prior_art",
        description="Measures batch invariance, accuracy and speed through PyTorch, as published.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--op", default=report.OP, choices=[report.OP], help=f"the op; one is published ({report.OP})")
    made.add_argument("--out", required=True, type=Path, help="file to write; figures lie beside it")
    made.add_argument("--layout", default="interleaved", choices=layouts.NAMES, help="how positions are packed")
    made.add_argument("--quick", action="store_true", help="small batches and few runs: a look, no record")
    made.add_argument("--device", type=device, help="cpu or cuda:0; a GPU if there is one")
    made.add_argument("--positions", type=positions, help="S of accuracy and times, such as 4097,32768")
    made.add_argument("--hidden", type=positive, default=5376, help="H, columns of a chunk (5376)")
    made.add_argument(
        "--implementations",
        type=implementations,
        default=list(MAKERS),
        help=f"some of {', '.join(MAKERS)}; all unless given",
    )
    return made


def device(word: str) -> torch.device:
    """A device that is there."""
    try:
        found = torch.device(word)
    except RuntimeError:
        found = None
    if found is None or found.type not in ("cpu", "cuda"):
        raise argparse.ArgumentTypeError(f"{word} is no device here; write cpu or cuda:0")
    if found.type == "cuda":
        found = torch.device("cuda", found.index or 0)
        if found.index >= torch.cuda.device_count():
            raise argparse.ArgumentTypeError(f"{word} is not there; torch sees {torch.cuda.device_count()} GPUs")
    return found


def positive(word: str) -> int:
    """A number from 1 that a kernel can count to."""
    digits = word.strip()
    if digits.isascii() and digits.isdecimal() and len(digits) <= len(str(MOST)) and 1 <= int(digits) <= MOST:
        return int(digits)
    raise argparse.ArgumentTypeError(f"{word:.40} is no number from 1 to {MOST}")


def positions(word: str) -> tuple[int, ...]:
    """Numbers with commas, ascending and without repeats."""
    return tuple(sorted({positive(part) for part in word.split(",")}))


def implementations(word: str) -> list[str]:
    """Names with commas."""
    names = word.split(",")
    unknown = [name for name in names if name not in MAKERS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]} is no implementation; write some of {', '.join(MAKERS)}")
    return list(dict.fromkeys(names))


def sizes(layout: str, quick: bool, on: torch.device, hidden: int) -> tuple[int, ...]:
    """S where none is asked for."""
    if quick:
        return (257, 4097)
    own = layouts.own_positions(layout)
    if on.type != "cuda":
        return (4097, 32768)
    if own is not None:
        return (own,)
    free, _ = torch.cuda.mem_get_info(on)
    return (4097, 32768, LARGEST) if free >= LARGEST_NEEDS_BYTES * hidden / 5376 else (4097, 32768)


def main(arguments: list[str] | None = None) -> int:
    """0, 1 when something failed, 2 when the command line is wrong."""
    asked = parser().parse_args(arguments)
    try:
        for path in (asked.out, *figures.files(asked.out)):
            output.check(path)
    except output.OutputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    on: torch.device = asked.device or device("cuda:0" if torch.cuda.is_available() else "cpu")
    if on.type == "cuda":
        torch.cuda.set_device(on)
    elif not asked.quick and asked.device is None:
        print(NO_GPU, file=sys.stderr)
        return 2
    case = Case(on, asked.hidden, asked.layout)
    chosen = asked.positions or sizes(asked.layout, asked.quick, on, asked.hidden)
    short = memory.shortage(case, max(chosen))
    if short is not None:
        print(f"error: {short}", file=sys.stderr)
        return 1
    protocol = Protocol.quick(chosen) if asked.quick else Protocol(chosen)
    progress = Progress()
    progress.begin("implementations", len(asked.implementations))
    entries = make(asked.implementations, on)
    progress.end()
    try:
        head = report.head(case, protocol, asked.quick)

        def keep(found: Measured) -> None:
            # Who is cut off has the sizes that were done.
            output.write(asked.out, output.to_json(report.build(head, found, complete=False)))

        measured = measure(entries, case, protocol, asked.quick, progress, keep)
        content = report.build(head, measured)
        output.write(asked.out, output.to_json(content))
        print(summary(content, report.published()), end="")
        for line in figures.beside(asked.out, content):
            print(line, file=sys.stderr)
    except output.OutputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except torch.OutOfMemoryError as error:
        first = str(error).splitlines()[0]
        print(f"error: memory is short for S = {max(chosen)}, ask for less with --positions: {first}", file=sys.stderr)
        return 1
    # A device that has failed fails everything that comes after it.
    except RuntimeError as error:
        print(f"error: the run ended without a report: {because(error).reason}", file=sys.stderr)
        return 1
    failed = [(name, reason) for name, reason in unavailable(content).items() if name.startswith("rowloom")]
    for name, reason in failed:
        print(f"error: {name} was not measured: {reason}", file=sys.stderr)
    return 1 if failed else 0
