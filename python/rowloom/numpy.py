"""Every declared kernel as a function over NumPy arrays, on the CPU.

    from rowloom import numpy as rn
    shift, scale, gate, *mlp = rn.adaln_row_gather(table, timestep, modality)

Arrays hold float32, float16 or `ml_dtypes.bfloat16`, indices uint8, int32 or int64. Rows are (S, H),
tables (rows, chunks·H), indices (S,); any row stride and offset is read in place. The bytes are those of
`rowloom.torch` on any device.
"""

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Never, TypeAlias

try:
    import numpy as np
except ModuleNotFoundError as error:
    if error.name != "numpy":
        raise
    raise ModuleNotFoundError("rowloom.numpy needs NumPy, which is not installed: `pip install numpy`", name="numpy") from None
from numpy.typing import DTypeLike, NDArray

from rowloom import _native, linked, numbers, shapes
from rowloom.plan import PlanData
from rowloom.signature import Signature
from rowloom.words import described

if TYPE_CHECKING:
    from rowloom._native import Kernel, PlanSizes

Array: TypeAlias = NDArray[Any]

_CPU = 0
"""The stream of a call: the CPU has one."""


class RowPlan(PlanData[NDArray[np.int32]]):
    """Which row each position has, checked and in order: a copy, so later edits of the indices do not change it.

    `state` is an int32 array, which cannot be written, and `sizes` are plain integers. The content of the state is
    trusted: only `function.plan` and `repeat` make one.
    """

    __slots__ = ()

    def __init__(self, state: NDArray[np.int32], sizes: "PlanSizes") -> None:
        state.flags.writeable = False
        super().__init__(state, sizes)

    def repeat(self, batch: int) -> "RowPlan":
        """The plan of `batch` sequences that share this one: position `b * S + s` has the row of `s`.

        Raises `ValueError` for a batch of no sequences, or of more positions than a plan can have.
        """
        positions, rows, block = self.sizes[:3]
        batch = numbers.batch(batch, positions)
        state = np.empty(_native.plan_elements(positions * batch, rows, block), np.int32)
        return RowPlan(state, _native.repeat_plan(_CPU, (self.state, self.sizes), batch, state))

    def __repr__(self) -> str:
        return f"RowPlan(positions={self.positions}, rows={self.rows})"

    def __deepcopy__(self, memo: dict[int, Any]) -> "RowPlan":
        """Nothing of it changes."""
        return self


Plans: TypeAlias = RowPlan | Sequence[RowPlan]
"""One plan, or one for each row expression of the kernel."""


class RowFunction:
    """A kernel as a function: arrays in the order of its declaration, or by name.

    `plan` is a `RowPlan` (or one for each row expression): the indices are then trusted. Without one they are
    checked. Row counts that no array tells are keywords by their declared names.

    Returns one array, or a tuple of all. Errors: `IndexError` for an index out of its bound; `TypeError`
    for arguments and element types; `ValueError` for sizes, strides and plans.
    """

    def __init__(self, module: str, kernel: "Kernel") -> None:
        self._module = module
        self._kernel = kernel
        self._signature = Signature(kernel, {"plan": None})
        self._names = self._signature.names
        self.__name__ = self.__qualname__ = kernel.name
        self.__doc__ = f"{kernel.docs}\n\n{kernel.signature}\n\n{type(self).__doc__}"
        self.__signature__ = self._signature.python

    def __repr__(self) -> str:
        return f"<rowloom kernel {self.__name__}{self.__signature__}>"

    def __call__(self, *arguments: Array, plan: Plans | None = None, **named: Any) -> Any:
        inputs, counts = self._bind(arguments, named)
        sizes = shapes.sizes(self._kernel, [array.shape for array in inputs], counts)
        outputs = [
            np.empty(shape if output.tensors == 1 else (output.tensors, *shape), self._dtype(output.dtype, inputs))
            for output, shape in zip(self._kernel.outputs, shapes.output_shapes(self._kernel, sizes), strict=True)
        ]
        self._kernel.forward(_CPU, inputs, outputs, self._data(plan), "now", counts)
        results: list[Array] = []
        for output, array in zip(self._kernel.outputs, outputs, strict=True):
            results.extend([array] if output.tensors == 1 else array)
        return results[0] if len(results) == 1 else tuple(results)

    def plan(self, *indices: Array, rows: int | None = None, expression: int = 0, **named: Array) -> RowPlan:
        """The plan of one of the kernel's row expressions, from its indices in order or by name.

        `rows` is the number of rows that the expression reads or sums into: R, where a table has R rows; it may
        be left out where the declaration says it. An index out of its bound is an `IndexError`.
        """
        number, names, given, count, counts = self._signature.planned(indices, named, rows, expression)
        for name, index in zip(names, given, strict=True):
            self._check_array(name, index)
        positions = given[0].shape[0] if given[0].ndim else 0
        # Sizes that no plan can have are for the call to refuse.
        elements = _native.plan_elements(positions, count, self._kernel.block) if positions > 0 else 0
        state = np.empty(elements, np.int32)
        return RowPlan(state, self._kernel.plan(_CPU, number, given, counts, state))

    def backward(
        self,
        cotangents: Array | Sequence[Array | None],
        *arguments: Array,
        wants: str | Sequence[str] | None = None,
        gradient_dtype: DTypeLike | None = None,
        plan: Plans | None = None,
        **named: Any,
    ) -> tuple[Array, ...]:
        """The gradients of the inputs named by `wants`, one name or several, in that order; of all that have one without it.

        `cotangents` has one array, or None for zeros, for each array of the forward's results; they tell row counts that no
        input tells. With `gradient_dtype=numpy.float32` gradients of tables are not rounded to their type. Returns a tuple.
        """
        kernel = self._kernel
        cotangents = self._each(cotangents)
        inputs, counts = self._checked(*self._signature.bind_backward(cotangents, arguments, named))
        dtypes = self._gradient_dtypes(inputs, gradient_dtype)
        wants = self._signature.wanted(wants)
        gradients: dict[str, Array] = {}
        for name, array, dtype in zip(self._names, inputs, dtypes, strict=True):
            if name in wants:
                gradients[name] = np.empty(array.shape, dtype)
        if gradients:
            places = [gradients.get(name) for name in self._names]
            kernel.backward(_CPU, inputs, self._cotangents(cotangents, inputs, counts), places, self._data(plan), None)
        return tuple(gradients[name] for name in wants)

    def with_order(self, *, block: int | None = None, accumulate: str | None = None, **unknown: Never) -> "RowFunction":
        """The same kernel with another order of sums, which is another meaning: `block` positions a block, `accumulate`
        "float32" or "float64", or "f32" and "f64" as declarations have it."""
        self._signature.refuse_other_orders(self._kernel, unknown)
        return _function(self._module, self._kernel.with_order(block=block, accumulate=accumulate))

    def __reduce__(self) -> tuple[Any, ...]:
        """By name, so that what holds a function can be copied and saved."""
        return _found, (self._module, self.__name__, self._kernel.block, self._kernel.accumulate)

    def _gradient_dtypes(self, inputs: Sequence[Array], given: DTypeLike | None) -> list[np.dtype[Any]]:
        """The type of each input's gradient. `ValueError` for one that gradients of tables cannot have."""
        own = [array.dtype for array in inputs]
        if given is None:
            return own
        dtype = np.dtype(given)
        self._signature.refuse_gradients_of(dtype, own, np.dtype(np.float32))
        return [dtype if kind == "table" else one for kind, one in zip(self._signature.kinds, own, strict=True)]

    def _each(self, cotangents: Array | Sequence[Array | None]) -> list[Any]:
        """Cotangents one by one."""
        # One result is one array, with rows and not results on its first axis.
        one = isinstance(cotangents, np.ndarray) and sum(output.tensors for output in self._kernel.outputs) == 1
        return list(cotangents) if hasattr(cotangents, "__iter__") and not one else [cotangents]

    def _cotangents(self, given: Sequence[Any], inputs: Sequence[Array], counts: Mapping[str, int]) -> list[Array]:
        """One for each array of the results; zeros take no memory."""
        outputs = self._kernel.outputs
        expected = sum(output.tensors for output in outputs)
        if len(given) != expected:
            raise TypeError(f"{self.__name__}.backward takes {expected} cotangents, not {len(given)}")
        for at, array in enumerate(given):
            if array is not None:
                self._check_array(f"cotangents[{at}]", array)
        sizes = shapes.sizes(self._kernel, [array.shape for array in inputs], counts)
        found = shapes.output_shapes(self._kernel, sizes)
        like = [(output, shape) for output, shape in zip(outputs, found, strict=True) for _ in range(output.tensors)]
        all_of_them: list[Array] = []
        for (output, (rows, columns)), array in zip(like, given, strict=True):
            if array is None:
                array = np.broadcast_to(np.zeros((1, columns), self._dtype(output.dtype, inputs)), (rows, columns))
            all_of_them.append(array)
        return all_of_them

    def _bind(self, arguments: Sequence[Array], named: Mapping[str, Any]) -> tuple[list[Array], dict[str, int]]:
        """Arrays in order, and the row counts that no array tells."""
        return self._checked(*self._signature.bind(arguments, named))

    def _checked(self, inputs: Sequence[Any], counts: dict[str, int]) -> tuple[list[Array], dict[str, int]]:
        """Inputs that are arrays, and row counts."""
        for name, array in zip(self._names, inputs, strict=True):
            self._check_array(name, array)
        return list(inputs), counts

    def _check_array(self, name: str, array: object) -> None:
        if not isinstance(array, np.ndarray):
            raise TypeError(f"{self.__name__}: {name} is {described(array)}; rowloom.numpy takes arrays, rowloom.torch tensors")
        if isinstance(array, np.ma.MaskedArray):
            raise TypeError(f"{self.__name__}: {name} is a masked array, whose mask is not read; pass {name}.filled(…) or {name}.data")

    def _data(self, plan: object) -> list[tuple[Array, "PlanSizes"]] | None:
        """Plans as plain data."""
        if plan is None:
            return None
        data = []
        for one in plan if hasattr(plan, "__iter__") else (plan,):
            if not isinstance(one, RowPlan):
                raise TypeError(f"{self.__name__}: plan is {described(one)}; {self.__name__}.plan(…) makes a RowPlan of rowloom.numpy")
            data.append((one.state, one.sizes))
        return data

    def _dtype(self, dtype: str, inputs: Sequence[Array]) -> DTypeLike:
        """The type of an output: that of an input of the same type parameter, or fixed."""
        for declared, array in zip(self._kernel.inputs, inputs, strict=True):
            if declared.dtype == dtype:
                return array.dtype
        return np.dtype(dtype)


_known: dict["Kernel", RowFunction] = {}
"""Every function that was asked for, by its kernel: one object for each order of sums."""


def _function(module: str, kernel: "Kernel") -> RowFunction:
    """The function of a kernel."""
    return _known.setdefault(kernel, RowFunction(module, kernel))


def _found(module: str, name: str, block: int, accumulate: str) -> RowFunction:
    """The function that was saved."""
    function: RowFunction = getattr(register(importlib.import_module(module)), name)
    return function.with_order(block=block, accumulate=accumulate)


def register(module: Any) -> linked.Kernels:
    """The functions of a native module of your own kernels, by name.

    Raises `TypeError` for something else, `ImportError` for a module that was built with another version of rowloom.
    """
    linked.refuse_other(module)
    return linked.Kernels(module.__name__, **{kernel.name: _function(module.__name__, kernel) for kernel in module.kernels()})


_FUNCTIONS: dict[str, RowFunction] = vars(register(_native))

__all__ = ["RowFunction", "RowPlan", "register"]
__all__ += list(_FUNCTIONS)


def __getattr__(name: str) -> RowFunction:
    try:
        return _FUNCTIONS[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no kernel {name!r}; it has {', '.join(_FUNCTIONS)}") from None


def __dir__() -> list[str]:
    """What is public: the names of modules that this one imports are not."""
    return sorted(__all__)
