"""Modules that link rowloom's Python crate: rowloom's own, and those of users."""

from types import SimpleNamespace
from typing import Any, NoReturn

from rowloom import _native


class Kernels(SimpleNamespace):
    """The functions of a module, as attributes by their kernels' names."""

    # In a slot, so that `vars` has the functions alone.
    __slots__ = ("_module",)

    def __init__(self, module: str, /, **functions: object) -> None:
        super().__init__(**functions)
        self._module = module

    def __reduce__(self) -> tuple[Any, ...]:
        return _kernels, (type(self), self._module, vars(self))

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{self._module} has no kernel {name!r}; it has {', '.join(vars(self))}")


def _kernels(kind: type[Kernels], module: str, functions: dict[str, object]) -> Kernels:
    """Those that were copied or saved."""
    return kind(module, **functions)


def refuse_other(module: object) -> None:
    """`TypeError` for what is no module of kernels, `ImportError` for one of another version of rowloom."""
    name = getattr(module, "__name__", None)
    version = getattr(module, "__version__", None)
    if not isinstance(name, str) or not isinstance(version, str) or not hasattr(module, "kernels"):
        what = name if isinstance(name, str) else f"a {type(module).__name__}"
        raise TypeError(f"register takes a native module of kernels, one that links rowloom's Python crate; {what} is none")
    if version != _native.__version__:
        raise ImportError(f"{name} was built with rowloom {version}, but this is {_native.__version__}: build it anew")
