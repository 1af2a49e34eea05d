"""What tests run on: CPU tensors everywhere, CUDA tensors where there is a GPU."""

import importlib.util
import os
from collections.abc import Iterator

import pytest

REQUIRED = os.environ.get("ROWLOOM_REQUIRE_GPU") == "1"
HAS_TORCH = importlib.util.find_spec("torch") is not None

NO_GPU = "skipped: no CUDA device"
NO_TORCH = "skipped: no torch: every test but those of rowloom.numpy"

NEED_TORCH = ["test_errors.py", "test_native*.py", "test_prior_art_*.py", "test_torch_*.py"]

collect_ignore_glob = [] if HAS_TORCH or REQUIRED else NEED_TORCH


def pytest_report_header() -> list[str]:
    return [] if HAS_TORCH else [NO_TORCH]


def require_gpu() -> None:
    """Ends a test that needs a GPU where there is none."""
    import torch

    if torch.cuda.is_available():
        return
    if REQUIRED:
        pytest.fail("ROWLOOM_REQUIRE_GPU=1, but torch finds no CUDA device")
    print(NO_GPU)
    pytest.skip(NO_GPU)


@pytest.fixture(params=["cpu", "cuda"])
def device(request: pytest.FixtureRequest) -> str:
    """Each device that a test runs on."""
    if request.param == "cuda":
        require_gpu()
    return str(request.param)


@pytest.fixture
def cuda() -> str:
    """The GPU of a test that is about GPUs."""
    require_gpu()
    return "cuda"


@pytest.fixture(autouse=HAS_TORCH)
def fresh_plans() -> Iterator[None]:
    """No test finds plans of another, or leaves automatic plans off."""
    from rowloom import torch as rowloom_torch

    rowloom_torch.clear_plans()
    with rowloom_torch.auto_plans(True):
        yield
    rowloom_torch.clear_plans()
