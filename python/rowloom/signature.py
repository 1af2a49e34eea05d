"""What a function takes, of tensors and of arrays alike, and how it says that it was given something else."""

import inspect
import keyword
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rowloom import numbers

if TYPE_CHECKING:
    from rowloom._native import Extent, Kernel


RESERVED = ("plan", "plans", "sizes", "check", "counts", "gradient_dtype", "cotangents", "wanted", "wants", "shapes", "dtypes")
"""What no input may be called, beside keywords of Python: arguments of functions, of their backwards and of ops have these names."""


class Signature:
    """The arguments of a kernel's function. `ValueError` for a kernel whose own names they cannot have."""

    def __init__(self, kernel: "Kernel", options: Mapping[str, object]) -> None:
        self.function = kernel.name
        refuse_names(kernel)
        self.names = tuple(declared.name for declared in kernel.inputs)
        self.kinds = tuple(declared.kind for declared in kernel.inputs)
        self._able = [declared.name for declared in kernel.inputs if declared.differentiable]
        self._counts = tuple(kernel.open_counts)
        self._all_counts = tuple(kernel.counts)
        self._expressions = tuple(kernel.row_expressions)
        self._told = _told_by_results(kernel)
        self.python = _parameters(self.names, {name: inspect.Parameter.empty for name in self._counts} | dict(options))
        told = {name: None if name in self._told else inspect.Parameter.empty for name in self._counts}
        self._backward = _parameters(("cotangents", *self.names), {**told, "plan": None, "wants": None, "gradient_dtype": None})

    def bind(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, int]]:
        """Inputs in order, and row counts in order. `TypeError` for what does not fit, `ValueError` for no rows."""
        return self._bound(arguments, named, None)

    def bind_backward(
        self, cotangents: Sequence[Any], arguments: Sequence[Any], named: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, int]]:
        """The same of a backward, whose cotangents tell the row counts of summed tables."""
        if not self._told or len(named.keys() & self._told.keys()) == len(self._told):
            return self._bound(arguments, named, {})
        told = {}
        for name, (at, numerator, denominator) in self._told.items():
            shape: Sequence[int] = getattr(cotangents[at], "shape", ()) if at < len(cotangents) else ()
            if len(shape) > 0 and name not in named:
                told[name] = shape[0] * denominator // numerator
        return self._bound(arguments, named, told)

    def _bound(
        self, arguments: Sequence[Any], named: Mapping[str, Any], told: Mapping[str, int] | None
    ) -> tuple[tuple[Any, ...], dict[str, int]]:
        """Of a call where nothing else tells row counts, or of a backward with those that its cotangents tell."""
        inputs = dict(zip(self.names, arguments, strict=False))
        counts: dict[str, int] = {} if told is None else dict(told)
        backward = told is not None
        if len(arguments) > len(self.names):
            raise self._misused(f"takes {len(self.names)} inputs, {len(arguments)} were given", backward)
        for name, value in named.items():
            if name in self._counts:
                counts[name] = self.rows(name, value)
            elif name not in self.names:
                raise self._misused(f"has no argument {name!r}", backward)
            elif name in inputs:
                raise self._misused(f"was given {name!r} twice", backward)
            else:
                inputs[name] = value
        missing = [name for name in self.names if name not in inputs] + [name for name in self._counts if name not in counts]
        if missing:
            raise self._misused(f"was not given {', '.join(missing)}", backward)
        return tuple([inputs[name] for name in self.names]), {name: counts[name] for name in self._counts}

    def _misused(self, how: str, backward: bool) -> TypeError:
        call = f".backward{self._backward}" if backward else str(self.python)
        return TypeError(f"{self.function}{call} {how}")

    def refuse_other_orders(self, kernel: "Kernel", unknown: Mapping[str, object]) -> None:
        """`TypeError` for what an order of sums has not."""
        for name in unknown:
            call = f"{self.function}.with_order(*, block={kernel.block}, accumulate={kernel.accumulate!r})"
            raise TypeError(f"{call} has no argument {name!r}")

    def rows(self, name: str, value: Any) -> int:
        """A number of rows."""
        return numbers.rows(self.function, name, value)

    def planned(self, indices: Sequence[Any], named: Mapping[str, Any], rows: Any, expression: Any) -> "Planned":
        """What a plan is made of, from indices in order or by name."""
        number = numbers.whole(expression)
        if number is None:
            raise TypeError(f"{self.function}: expression is {expression!r}; it must be the number of a row expression")
        if not 0 <= number < len(self._expressions):
            raise ValueError(f"{self.function} has {len(self._expressions)} row expressions; there is no number {number}")
        text, inputs, extent = self._expressions[number]
        names = [self.names[at] for at in inputs]
        default = "" if extent.count is not None else f"={extent.numerator}"
        call = f"{self.function}.plan({', '.join(names)}, *, rows{default}, expression=0)"
        given = dict(zip(names, indices, strict=False))
        for name, index in named.items():
            if name not in names:
                cure = "; the row count is rows=" if name in self._all_counts else ""
                raise TypeError(f"{call} has no argument {name!r}{cure}")
            if name in given:
                raise TypeError(f"{call} was given {name!r} twice")
            given[name] = index
        if len(indices) > len(names) or len(given) < len(names):
            raise TypeError(f"{call} takes {len(names)} indices, not {len(indices) + len(named)}")
        if rows is None and extent.count is not None:
            raise TypeError(f"{call} needs rows, the number of rows that {text} may take")
        return Planned(number, names, [given[name] for name in names], *self._rows_of_plan(text, extent, rows))

    def _rows_of_plan(self, text: str, extent: "Extent", rows: Any) -> tuple[int, dict[str, int]]:
        """The rows of an expression, and the row counts that follow from them."""
        if rows is None:
            return extent.numerator, {}
        count = self.rows("rows", rows)
        if extent.count is None:
            if count != extent.numerator:
                raise ValueError(f"{self.function}: {text} has {extent.numerator} rows, not {count}")
            return count, {}
        scaled, rest = divmod(count * extent.denominator, extent.numerator)
        if rest:
            raise ValueError(f"{self.function}: {text} cannot have {count} rows, which is no multiple of {extent.numerator}")
        return count, {extent.count: scaled}

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


class Planned(NamedTuple):
    """What a plan is made of."""

    expression: int
    names: list[str]
    """Of its indices."""
    indices: list[Any]
    rows: int
    counts: dict[str, int]
    """Row counts that follow from `rows`."""


def refuse_names(kernel: "Kernel") -> None:
    """`ValueError` for an input or a row count that no argument of Python can be called."""
    counts = [("a row count", name) for name in kernel.open_counts]
    for what, name in [*[("an input", declared.name) for declared in kernel.inputs], *counts]:
        if keyword.iskeyword(name):
            raise ValueError(f"{kernel.name}: {what} cannot be called {name}, which is a keyword of Python")
        if name in RESERVED:
            raise ValueError(f"{kernel.name}: {what} cannot be called {name}, which is an option of every call")


def _parameters(positional: Sequence[str], by_name: Mapping[str, object]) -> inspect.Signature:
    """A signature; `by_name` has defaults."""
    named = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default) for name, default in by_name.items()]
    return inspect.Signature([*[inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in positional], *named])


def _told_by_results(kernel: "Kernel") -> dict[str, tuple[int, int, int]]:
    """Of each row count that no input tells a tensor of the results that does: its place, and numerator and denominator of its rows."""
    told: dict[str, tuple[int, int, int]] = {}
    at = 0
    for output in kernel.outputs:
        rows = output.rows
        if rows is not None and rows.count in kernel.open_counts:
            told.setdefault(rows.count, (at, rows.numerator, rows.denominator))
        at += output.tensors
    return told
