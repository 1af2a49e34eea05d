"""The compiler of kernels, where PyTorch's wheels have brought one."""

import importlib.util
import os
import subprocess
import sys

import pytest

BROUGHT = importlib.util.find_spec("nvidia") is not None and any(
    importlib.util.find_spec(name) is not None for name in ("nvidia.cuda_nvrtc", "nvidia.cu13")
)


@pytest.mark.skipif(not BROUGHT, reason="no wheel of this Python has brought NVRTC")
def test_the_python_that_runs_is_looked_into_without_being_active() -> None:
    hidden = ("ROWLOOM_NVRTC", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "VIRTUAL_ENV", "CONDA_PREFIX")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    ask = "from rowloom import _native; print(_native.nvrtc_version())"
    found = subprocess.run([sys.executable, "-c", ask], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.startswith("(1"), found.stdout
