"""Every declared kernel as a function over PyTorch tensors, and as an op that `torch.compile` keeps.

`rowloom.torch.<kernel>` is a `RowFunction`, such as `rowloom.torch.adaln_row_gather`. CPU tensors run
on the CPU executor with the bytes of the GPU.
"""

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ModuleNotFoundError("rowloom.torch needs PyTorch, which is not installed: `pip install torch`", name="torch") from None

from rowloom import _native
from rowloom.torch.chunks import gather_chunks
from rowloom.torch.function import RowFunction
from rowloom.torch.modules import register, synchronize
from rowloom.torch.plans import PlanStats, auto_plans, clear_plans, plan_stats
from rowloom.torch.row_plan import RowPlan

_functions = register(_native)

__all__ = [
    "PlanStats",
    "RowFunction",
    "RowPlan",
    "auto_plans",
    "clear_plans",
    "gather_chunks",
    "plan_stats",
    "register",
    "synchronize",
]
__all__ += list(vars(_functions))


def __getattr__(name: str) -> RowFunction:
    try:
        function: RowFunction = vars(_functions)[name]
    except KeyError:
        kernels = ", ".join(vars(_functions))
        raise AttributeError(f"rowloom.torch has no kernel {name!r}; it has {kernels}") from None
    return function


def __dir__() -> list[str]:
    """What is public: the names of modules that this one is made of are not."""
    return sorted(__all__)
