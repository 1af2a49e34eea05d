"""What a function takes, of tensors and of arrays alike, and how it says that it was given something else."""

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rowloom import numbers

if TYPE_CHECKING:
    from rowloom._native import Kernel


class Signature:
    """The arguments of a kernel's function."""

    def __init__(self, kernel: "Kernel", options: Mapping[str, object]) -> None:
        self.function = kernel.name
        self.names = tuple(declared.name for declared in kernel.inputs)
        self.kinds = tuple(declared.kind for declared in kernel.inputs)
        self._able = [declared.name for declared in kernel.inputs if declared.differentiable]
        self._counts = tuple(kernel.open_counts)
        self._expressions = tuple(kernel.row_expressions)
        keyword = inspect.Parameter.KEYWORD_ONLY
        self.python = inspect.Signature(
            [
                *[inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in self.names],
                *[inspect.Parameter(name, keyword) for name in self._counts],
                *[inspect.Parameter(name, keyword, default=default) for name, default in options.items()],
            ]
        )

    def bind(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, int]]:
        """Inputs in order, and row counts in order. `TypeError` for what does not fit, `ValueError` for no rows."""
        inputs = dict(zip(self.names, arguments, strict=False))
        counts: dict[str, int] = {}
        if len(arguments) > len(self.names):
            raise self._misused(f"takes {len(self.names)} inputs, {len(arguments)} were given")
        for name, value in named.items():
            if name in self._counts:
                counts[name] = self.rows(name, value)
            elif name not in self.names:
                raise self._misused(f"has no argument {name!r}")
            elif name in inputs:
                raise self._misused(f"was given {name!r} twice")
            else:
                inputs[name] = value
        missing = [name for name in self.names if name not in inputs] + [name for name in self._counts if name not in counts]
        if missing:
            raise self._misused(f"was not given {', '.join(missing)}")
        return tuple([inputs[name] for name in self.names]), {name: counts[name] for name in self._counts}

    def _misused(self, how: str) -> TypeError:
        return TypeError(f"{self.function}{self.python} {how}")

    def rows(self, name: str, value: Any) -> int:
        """A number of rows."""
        return numbers.rows(self.function, name, value)

    def planned(self, indices: Sequence[object], rows: Any, expression: Any) -> tuple[int, list[str], int, dict[str, int]]:
        """The number of a row expression, the names of its indices, its rows, and the row counts that follow from them."""
        number = numbers.whole(expression)
        if number is None:
            raise TypeError(f"{self.function}: expression is {expression!r}; it must be the number of a row expression")
        if not 0 <= number < len(self._expressions):
            raise ValueError(f"{self.function} has {len(self._expressions)} row expressions; there is no number {number}")
        text, inputs, extent = self._expressions[number]
        names = [self.names[at] for at in inputs]
        call = f"{self.function}.plan({', '.join(names)}, rows=…)"
        if len(indices) != len(names):
            raise TypeError(f"{call} takes {len(names)} indices, not {len(indices)}")
        if rows is None:
            if extent.count is not None:
                raise TypeError(f"{call} needs rows, the number of rows that {text} may take")
            return number, names, extent.numerator, {}
        count = self.rows("rows", rows)
        if extent.count is None:
            if count != extent.numerator:
                raise ValueError(f"{self.function}: {text} has {extent.numerator} rows, not {count}")
            return number, names, count, {}
        scaled, rest = divmod(count * extent.denominator, extent.numerator)
        if rest:
            raise ValueError(f"{self.function}: {text} cannot have {count} rows, which is no multiple of {extent.numerator}")
        return number, names, count, {extent.count: scaled}

    def refuse_gradients_of(self, dtype: object, own: Sequence[object], float32: object) -> None:
        """`ValueError` for a type that gradients of tables cannot have: float32, or that of the tables. `own` are those of the inputs."""
        tables = [one for kind, one in zip(self.kinds, own, strict=True) if kind == "table"]
        if dtype != float32 and (not tables or any([one != dtype for one in tables])):
            raise ValueError(f"{self.function}: gradient_dtype is {dtype}; it may be {float32}, or the type of the table")

    def wanted(self, wants: str | Sequence[str] | None) -> list[str]:
        """The inputs whose gradients are wanted: all that have one, or those named, or the one named."""
        if wants is None:
            return self._able
        if not hasattr(wants, "__iter__"):
            raise TypeError(f"{self.function}: wants is {wants!r}; it must be names of inputs")
        names = [wants] if isinstance(wants, str) else list(wants)
        for name in names:
            if name not in self._able:
                raise ValueError(f"{self.function} has no gradient of {name!r}; it has those of {', '.join(self._able)}")
        return names
