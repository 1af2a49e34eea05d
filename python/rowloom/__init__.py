"""Row gathers and row reductions with the same bytes everywhere.

`rowloom.numpy` and `rowloom.torch` have every declared kernel as a function.
"""

try:
    from rowloom._native import __version__, kernels
except ImportError as error:
    raise ImportError(
        f"rowloom's extension module rowloom._native cannot be loaded ({error}): install rowloom for this Python "
        "and machine from the wheel that `cargo xtask wheel` makes in rowloom's repository, or build it with "
        "`maturin develop --release` in the folder `python`"
    ) from error

__all__ = ["__version__", "kernels"]
