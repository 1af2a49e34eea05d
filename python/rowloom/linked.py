"""Modules that link rowloom's Python crate: rowloom's own, and those of users."""

from rowloom import _native


def refuse_other(module: object) -> None:
    """`TypeError` for what is no module of kernels, `ImportError` for one of another version of rowloom."""
    name = getattr(module, "__name__", None)
    version = getattr(module, "__version__", None)
    if not isinstance(name, str) or not isinstance(version, str) or not hasattr(module, "kernels"):
        what = name if isinstance(name, str) else f"a {type(module).__name__}"
        raise TypeError(f"register takes a native module of kernels, one that links rowloom's Python crate; {what} is none")
    if version != _native.__version__:
        raise ImportError(f"{name} was built with rowloom {version}, but this is {_native.__version__}: build it anew")
