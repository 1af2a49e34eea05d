"""What is said where something is missing, half there, or something else."""

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import HAS_TORCH

import rowloom
from rowloom import numpy as rn

CALL = """
import sys, types
from unittest.mock import MagicMock
import numpy as np
from rowloom import numpy as rn

table, row = np.ones((3, 4), np.float32), np.array([2, 0])

def call():
    assert rn.row_gather(table, row).shape == (2, 4)
"""


def run(program: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *options, "-c", program], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "half",
    [
        "types.ModuleType('torch')",
        "types.SimpleNamespace(Tensor=type('Tensor', (), {}))",
        "MagicMock()",
        "None",
    ],
)
def test_arrays_need_no_torch(half: str) -> None:
    """PyTorch may be half imported, by another thread, or mocked."""
    done = run(f"{CALL}\nsys.modules['torch'] = {half}\ncall()\n")
    assert done.returncode == 0, done.stderr


def test_what_is_no_array_is_refused_beside_half_a_torch() -> None:
    program = f"""{CALL}
sys.modules['torch'] = MagicMock()
from rowloom import _native
kernel = next(kernel for kernel in _native.kernels() if kernel.name == 'row_gather')
try:
    kernel.forward(0, [5, row], [table], None, 'now', {{}})
except TypeError as error:
    assert 'table is of type int, but must be a torch.Tensor or a numpy.ndarray' in str(error), error
else:
    raise AssertionError('not refused')
"""
    done = run(program)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not HAS_TORCH, reason="no torch to import")
def test_arrays_while_torch_is_imported() -> None:
    program = f"""{CALL}
import threading
stop, errors = False, []

def work():
    while not stop:
        try:
            call()
        except BaseException as error:
            errors.append(error)
            return

thread = threading.Thread(target=work)
thread.start()
import torch
stop = True
thread.join()
assert not errors, errors
from rowloom import torch as rt
assert torch.equal(rt.row_gather(torch.from_numpy(table), torch.from_numpy(row)), torch.ones(2, 4))
"""
    done = run(program)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("package", "called"), [("torch", "PyTorch"), ("numpy", "NumPy")])
def test_a_missing_package_is_named(package: str, called: str) -> None:
    program = f"import sys; sys.modules['{package}'] = None; import rowloom.{package}"
    done = run(program)
    assert done.returncode == 1
    sentence = f"ModuleNotFoundError: rowloom.{package} needs {called}, which is not installed: `pip install {package}`"
    assert sentence in done.stderr


def test_a_missing_file_of_the_extension_is_no_circle(tmp_path: Path) -> None:
    package = tmp_path / "rowloom"
    package.mkdir()
    (package / "__init__.py").write_text(Path(rowloom.__file__).read_text(encoding="utf-8"), encoding="utf-8")
    done = run(f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import rowloom", "-P")
    assert done.returncode == 1
    assert "rowloom._native cannot be loaded (No module named 'rowloom._native')" in done.stderr
    assert "circular" not in done.stderr


@pytest.mark.parametrize("module", [None, 5, sys, "numpy"])
def test_what_is_no_module_of_kernels_is_not_registered(module: object) -> None:
    import numpy

    module = numpy if module == "numpy" else module
    registers = [rn.register]
    if HAS_TORCH:
        from rowloom import torch as rt

        registers.append(rt.register)
    for register in registers:
        with pytest.raises(TypeError, match="register takes a native module of kernels, .*; .* is none"):
            register(module)  # type: ignore[arg-type]


@pytest.mark.skipif(not HAS_TORCH, reason="no torch")
def test_the_compiler_is_left_alone_by_who_does_not_compile() -> None:
    """Its import takes as long as that of torch."""
    program = """
import sys
import torch
before = "torch._dynamo" in sys.modules
from rowloom import torch as rt

table, row = torch.arange(12.0).reshape(3, 4), torch.tensor([2, 0])
rt.row_gather(table, row, plan=rt.row_gather.plan(row, rows=3))
assert ("torch._dynamo" in sys.modules) == before
"""
    done = run(program)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not HAS_TORCH, reason="no torch")
@pytest.mark.parametrize(
    "anew",
    [
        "for name in [name for name in sys.modules if name.partition('.')[0] == 'rowloom']: del sys.modules[name]",
        "import importlib, rowloom.torch.modules; importlib.reload(rowloom.torch.modules)",
    ],
)
def test_a_package_is_imported_anew(anew: str) -> None:
    program = f"""
import gc, sys
import torch
from rowloom import torch as first

table, row = torch.arange(12.0).reshape(3, 4), torch.tensor([2, 0])
first.row_gather.with_order(block=7)

def check(rt):
    function, exact = rt.register(sys.modules['rowloom._native']).row_gather, rt.row_gather.with_order(accumulate='float64')
    for gather in (rt.row_gather, function, exact, rt.row_gather.with_order(block=7)):
        leaf = table.clone().requires_grad_()
        out = gather(leaf, row, plan=gather.plan(row, rows=3))
        out.sum().backward()
        assert torch.equal(out, table[row]) and leaf.grad.sum() == 8
        assert torch.equal(torch.func.vmap(lambda one: gather(one, row))(table[None])[0], table[row])
        assert gather(table.to('meta'), row.to('meta')).shape == (2, 4)

check(first)
{anew}
from rowloom import torch as second
gc.collect()
check(second)
del first
gc.collect()
check(second)
"""
    done = run(program)
    assert done.returncode == 0, done.stderr
