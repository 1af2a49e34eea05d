"""The declared kernels of this module, and calls of them on memory that others own.

The boundary between Python and Rust, and all of it: metadata, calls of kernels and of plans, questions, and
calls that are made again. What allocates, plans, differentiates or registers is Python's.

An *array* below is a `torch.Tensor` (CPU or CUDA, float32, float16, bfloat16, uint8, int32,
int64) or a `numpy.ndarray` (the same; bfloat16 as `ml_dtypes.bfloat16`). Nothing is copied, and a
call keeps nothing when it returns; what a `Launch` and a `Recent` keep alive is said there. Work may still run on the
stream then: whoever owns the memory keeps it in order with that stream. Rows of one axis are one column (H = 1), as is a
table without chunks.

`stream` is the raw `CUstream` as a number for CUDA arrays (0 is the legacy default stream) and
ignored on the CPU. The device is that of the arrays. Calls release the interpreter's lock.

Errors carry the sentence of the Rust side, with the argument's declared name: `IndexError` for
an index out of its bound, `TypeError` for an element type or something that is no array,
`ValueError` for sizes, strides, plans, schedules and arguments, `MemoryError` for memory,
`RuntimeError` for drivers, compilers, captures and everything else. After any of them the
process, the device and earlier results stay usable.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, final

Array = Any
"""A `torch.Tensor` or a `numpy.ndarray`."""

PlanSizes = tuple[int, int, int, int, int, int]
"""`(positions, rows, block, blocks, partials, rowless)` of a plan: S, R, positions a block, blocks
of all rows, blocks of rows of several, positions without a row. With its state, a plan whole."""

Plan = tuple[Array, PlanSizes]
"""A plan as plain data: its state, `(plan_elements(S, R, block),)` int32 on the device of the call,
and its sizes. Only `plan` and `repeat_plan` make a state; its content is trusted, not checked."""

__version__: str

@final
class Extent:
    """A number of rows: `numerator * count / denominator`, or `numerator` where `count` is None."""

    count: str | None
    numerator: int
    denominator: int

@final
class Input:
    """An input of a kernel, as declared."""

    name: str
    kind: Literal["rows", "table", "index"]
    """`rows`: (S, H). `table`: (rows, chunks·H). `index`: (S,)."""
    dtype: str
    """A type parameter such as `T`, or a fixed type such as `float32` or `int64`."""
    chunks: int
    """Of a table; 1 otherwise."""
    rows: Extent | None
    """Of a table; the exclusive bound of an index; None of rows."""
    pad: int | None
    """Of an index: the one value outside its bound that means "no row"."""
    differentiable: bool

@final
class Output:
    """An output of a kernel, as declared."""

    name: str
    kind: Literal["rows", "table"]
    dtype: str
    tensors: int
    """How many tensors of one shape it is, such as 6."""
    chunks: int
    """Of a table: (rows, chunks·H); 1 otherwise."""
    rows: Extent | None
    """Of a table."""

@final
class Kernel:
    """A declared kernel. Immutable, and shared by all threads."""

    name: str
    signature: str
    """As declared, in Rust."""
    docs: str
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    counts: tuple[str, ...]
    """Row counts, by name."""
    open_counts: tuple[str, ...]
    """Those that no input determines: a call gives them as `counts`."""
    row_expressions: tuple[tuple[str, tuple[int, ...], Extent], ...]
    """For each plan that a call takes, in order: its text, its indices (positions in `inputs`), its rows."""
    sums: bool
    """Whether the forward sums over positions, so that it needs plans or builds them."""
    block: int
    """Positions a block of the ordered sum."""
    accumulate: Literal["float32", "float64"]

    def with_order(self, *, block: int | None = None, accumulate: str | None = None) -> Kernel:
        """The same kernel with another order of sums, which is another meaning. `accumulate` may be "f32" or "f64" too. Made once each."""

    def reads(self, wanted: Sequence[bool]) -> tuple[bool, ...]:
        """For each input whether the backward reads it that gives the wanted gradients, a flag for each input."""

    def forward(
        self,
        stream: int,
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        plans: Sequence[Plan] | None,
        check: Literal["now", "deferred"],
        counts: dict[str, int],
        allocate: Callable[[int], Array] | None = None,
    ) -> None:
        """Runs the kernel into `outputs`, one array for each output; one of N tensors is (N, S, H).

        Or one array for each tensor of each output, in order: memory that goes tensor by tensor.

        With plans nothing is checked and nothing waits. Without, `now` waits for the kernel's check of
        its indices; `deferred` does not: a bad index is the `IndexError` of the next call or
        `synchronize` on this stream. A kernel that sums builds its plans when none are given.

        `allocate` gives a uint8 array of that many bytes on the device, for scratch, and is asked where a planned call
        needs some; None leaves it to the runtime, which cannot while a CUDA graph is captured.
        """

    def backward(
        self,
        stream: int,
        inputs: Sequence[Array | None],
        cotangents: Sequence[Array],
        gradients: Sequence[Array | None],
        plans: Sequence[Plan] | None,
        allocate: Callable[[int], Array] | None,
    ) -> None:
        """Writes the gradient of each input that is wanted into its place in `gradients`, which has the
        shape of the input and either its type or float32.

        `inputs` may be None where `reads` says so. `cotangents` has one array for each tensor of each
        output, in order. `allocate` is that of `forward`. Without plans they are built, and the call waits for that.
        """

    def recent(self, watched: Callable[[], object]) -> Recent:
        """The latest planned calls on GPUs, none yet. `watched` says whether somebody must see an op in place of a launch:
        modes, tracers, transforms."""

    def plan(
        self, stream: int, expression: int, indices: Sequence[Array], counts: dict[str, int], state: Array
    ) -> PlanSizes:
        """Builds the plan of one row expression into `state`. Waits for the stream once.

        `indices` are those of the expression, in its order; `counts` are all row counts that it needs.
        """

@final
class Launch:
    """A planned call on a GPU that was made once, to be made again over tensors that lie alike. It keeps its plans alive,
    and its indices."""

    def run(self, arguments: tuple[Array, ...]) -> Any:
        """The results over arguments for which `Recent.call` has just given this: a tensor or a tuple, none a view."""

    def backward(self, needed: Sequence[bool], cotangents: tuple[Array | None, ...]) -> tuple[Array | None, ...] | None:
        """The gradient of each input that needs one and has one. None where that takes more than a launch: a cotangent
        that is missing or must be copied first, another stream, a gradient that will be differentiated itself, a plan
        that was edited. Of a kernel whose backward reads nothing but plans."""

@final
class Recent:
    """Planned calls of one kernel on GPUs, the latest few. Those of the very same index objects, unedited, or of the very
    same plan, on the same stream, over tensors that lie alike, are launched again without asking anything twice.

    It keeps those indices and plans alive until `forget`.
    """

    hits: int
    """How many calls without a plan were like a remembered one."""
    planned_hits: int
    """How many calls with a plan were."""
    generation: int
    """How often all was forgotten."""

    def call(self, arguments: tuple[Array, ...], plan: object) -> Any:
        """The results of a call like a remembered one, a tensor or a tuple, none of them a view; what was kept with it
        where a gradient is asked for; None where there is no such call. `plan` is what the caller gave; without one
        nothing is found while a CUDA graph is captured."""

    def launch(
        self,
        arguments: tuple[Array, ...],
        stream: int,
        plans: Sequence[Plan],
        outputs: Sequence[tuple[int, int, tuple[int, int], Any]],
        versions: Sequence[int | None] | None,
    ) -> Launch | None:
        """A call to be remembered. `versions` are those of the indices from before they were planned, and None of other
        inputs; it is None where the caller gave a plan. `outputs` are `(like, tensors, (rows, columns), dtype)`: the
        input whose device, and type where `dtype` is None, they have; and one memory for all tensors of one output.

        None on the CPU, of an older PyTorch, and of indices made in inference mode.
        """

    def keep(self, launch: Launch, plan: object, kept: object, generation: int) -> None:
        """Remembers it, unless all was forgotten since `generation`. `kept` is what calls get that are differentiated;
        None where they are not to be remembered."""

    def was_used(self, state: Array) -> bool:
        """Whether a call through the plan of this state was like a remembered one since this was asked last."""

    def forget(self, state: Array | None = None) -> None:
        """Forgets the calls through the plan of a state, or all."""

def kernels() -> list[Kernel]:
    """Every kernel of this module, by name."""

def nvrtc_version() -> tuple[int, int] | None:
    """Major and minor version of the NVRTC that compiles what no cache or pack holds; None where none is found.

    Looked for once a process, as the kernels do, which loads it.
    """

def plan_elements(positions: int, rows: int, block: int) -> int:
    """Length of the state of a plan, in int32."""

def repeat_plan(stream: int, plan: Plan, batch: int, state: Array) -> PlanSizes:
    """The plan of `batch` sequences that share this one: position `b * S + s` has the row of `s`. Waits once."""

def memory_ceilings(device: int, stream: int, bytes: int, rounds: int) -> tuple[float, float, float]:
    """GB/s of reading, writing and copying so many bytes on a GPU, each the best of several plain kernels and the
    driver's own in so many rounds. Allocates twice the bytes meanwhile."""

def synchronize(device: int, stream: int) -> None:
    """Waits for the stream; raises what deferred calls on it have found. `device` is -1 for the CPU."""
