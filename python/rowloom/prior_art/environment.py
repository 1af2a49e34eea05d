"""What ran the report: every key of the published file, null where there is none, and ours."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import rowloom
import torch
from rowloom import _native

LIBRARIES = (
    "torch",
    "triton",
    "diffusers",
    "vllm",
    "flashinfer-python",
    "sglang",
    "liger-kernel",
    "transformer_engine",
    "megatron-core",
)
"""Those that the published file names."""

THIS_FILE = Path("python/rowloom/prior_art/environment.py")
"""In rowloom's own repository."""


def environment(device: torch.device, layout: str) -> dict[str, Any]:
    """The environment of a report on this device; its ceilings are measured later."""
    on_gpu = device.type == "cuda"
    return {
        "gpu": torch.cuda.get_device_name(device) if on_gpu else None,
        "capability": list(torch.cuda.get_device_capability(device)) if on_gpu else None,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "tf32": bool(torch.backends.cuda.matmul.allow_tf32),
        "libraries": {name: version(name) for name in LIBRARIES},
        "megatron_source_commit": None,
        "mode_environment": {"plain": {}},
        "driver": driver_release() if on_gpu else None,
        "nvrtc": nvrtc_version() if on_gpu else None,
        "device": f"{device.type}:{device.index or 0}" if on_gpu else device.type,
        "cpu": None if on_gpu else cpu_name(),
        "threads": None if on_gpu else torch.get_num_threads(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "layout": layout,
        "rowloom": rowloom.__version__,
        "ceilings": None,
    }


def version(name: str) -> str | None:
    """Version of an installed package."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def commit() -> tuple[str | None, bool | None]:
    """Commit of rowloom and whether tracked files differed from it.

    As git tells where the package lies in rowloom's repository, else as `ROWLOOM_COMMIT` says, which
    ends in `-dirty` where they did.
    """
    here = Path(__file__).resolve()
    top = _git(here.parent, "rev-parse", "--show-toplevel")
    # A package installed somewhere below another repository is not of that repository's commit.
    if top is not None and Path(top).resolve() / THIS_FILE == here:
        changes = _git(here.parent, "status", "--porcelain", "--untracked-files=no")
        return _git(here.parent, "rev-parse", "HEAD"), None if changes is None else bool(changes)
    told = os.environ.get("ROWLOOM_COMMIT")
    if not told:
        return None, None
    return told.removesuffix("-dirty"), told.endswith("-dirty")


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def driver_release() -> str | None:
    """Release of the NVIDIA driver, such as 580.159.04."""
    try:
        line = Path("/proc/driver/nvidia/version").read_text().splitlines()[0]
    except (OSError, IndexError):
        return None
    return next((word for word in line.split() if word[0].isdigit()), None)


def nvrtc_version() -> str | None:
    """Version of the NVRTC that rowloom itself finds here, whatever another search would find."""
    found = _native.nvrtc_version()
    return None if found is None else f"{found[0]}.{found[1]}"


def cpu_name() -> str | None:
    """The processor's name, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return None
    line = next((line for line in lines if line.startswith("model name")), None)
    return line.split(":", 1)[1].strip() if line else None
