"""Modules of kernels: rowloom's own, and those of users."""

import threading
from types import ModuleType
from typing import TYPE_CHECKING

import torch

from rowloom import linked
from rowloom.torch import private
from rowloom.torch.function import RowFunction


class Functions(linked.Kernels):
    """The functions of a module over tensors."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> RowFunction: ...  # type: ignore[override]


_lock = threading.Lock()
_registered: dict[str, tuple[ModuleType, Functions]] = {}


def register(native_module: ModuleType) -> Functions:
    """Every kernel of a module that links rowloom's Python crate, as functions and ops: `register(my_kernels).my_kernel`.

    Ops are `torch.ops.<namespace>.<kernel>`, where the namespace is the module's name with `_` for `.`, or that of
    its package where the module is called `_native`. Asking again gives the same functions. `TypeError` for
    something else, `ImportError` for a module that was built with another version of rowloom, `ValueError` for two
    modules of one namespace.
    """
    linked.refuse_other(native_module)
    namespace = native_module.__name__.removesuffix("._native").replace(".", "_")
    with _lock:
        known = _registered.get(namespace)
        if known is None:
            functions = {kernel.name: RowFunction(namespace, kernel) for kernel in native_module.kernels()}
            known = _registered[namespace] = native_module, Functions(native_module.__name__, **functions)
    module, found = known
    if module is not native_module:
        raise ValueError(f"the ops of {namespace} are those of {module.__name__}; {native_module.__name__} needs another name")
    return found


def synchronize() -> None:
    """Waits for the current stream, and for the CPU; raises the `IndexError` that a deferred call on it has found."""
    modules = [module for module, _ in list(_registered.values())]
    for module in modules:
        module.synchronize(-1, 0)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        device = torch.cuda.current_device()
        for module in modules:
            module.synchronize(device, private.current_stream(device))
