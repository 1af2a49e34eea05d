"""Eager calls on plain tensors: straight to the native module, without the dispatcher."""

import copy
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from rowloom._native import Launch, Recent
from rowloom.torch import batches, execute, private
from rowloom.torch.declared import Declared, Layout
from rowloom.torch.plans import setting
from rowloom.torch.row_plan import RowPlan

Plans = RowPlan | Sequence[RowPlan]
"""What a caller gives: one plan, or one for each row expression of the kernel."""


def refuse_check(function: str, check: object) -> None:
    """`ValueError` for what is neither of the two."""
    if check != "now" and check != "deferred":
        raise ValueError(f"{function}: check is {check!r}; it may be 'now' or 'deferred'")


class Call:
    """One call. Its *arguments* are the tensors that autograd sees, its *inputs* those of the kernel: here the same."""

    __slots__ = (
        "automatic", "check", "counts", "declared", "dtypes", "flat", "gradient_dtype", "keeps_plans", "launch", "layout", "plans",
        "positions", "shapes",
    )  # fmt: skip

    def __init__(
        self,
        declared: Declared,
        inputs: Sequence[Tensor],
        counts: Mapping[str, int],
        plan: Plans | None,
        check: str,
        gradient_dtype: torch.dtype | None,
        differentiated: bool,
        cached: bool = True,
        batched: bool = True,
    ) -> None:
        """`cached` lets automatic plans be found and kept; `batched` says that there may be leading dimensions."""
        refuse_check(declared.name, check)
        self.declared = declared
        self.counts = counts
        self.check = check
        self.gradient_dtype = gradient_dtype
        self.positions = batches.leading(declared.names, declared.kinds, inputs) if batched else ()
        """Leading dimensions of rows and indices; () for (S,)."""
        self.flat: Sequence[Tensor] = self.flat_of(inputs)  # type: ignore[assignment]
        """The inputs without them, until the forward has run."""
        self.layout: Layout = declared.layout(self.flat, counts)
        self.launch: Launch | None = None
        """What makes it again: then it is what many calls that are alike share."""
        self.plans: tuple[RowPlan, ...] | None = None
        self.automatic = False
        """Whether `plans` were found by the indices, and may be again."""
        self.keeps_plans = True
        """Whether a backward goes through `plans`; else it finds its own by the indices."""
        if plan is not None:
            self.plans = execute.explicit_plans(declared, plan, inputs, self.positions)
        elif declared.expressions:
            self._plan(inputs, differentiated, cached and setting.enabled)
        self.shapes = [x.shape for x in inputs]
        self.dtypes = [
            gradient_dtype if gradient_dtype is not None and kind == "table" else x.dtype
            for kind, x in zip(declared.kinds, inputs, strict=True)
        ]

    def flat_of(self, inputs: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        """Inputs without leading dimensions; None stays."""
        if len(self.positions) < 2:
            return inputs
        return batches.flat(self.declared.names, self.declared.kinds, inputs, self.positions)

    def _plan(self, inputs: Sequence[Tensor], differentiated: bool, cached: bool) -> None:
        """Plans of a call that was given none, or no plans: then the kernel checks its indices."""
        declared = self.declared
        if self.check == "deferred":
            # Whether a plan happens to be known must not change what is saved: a recomputation saves the same.
            self.keeps_plans = False
            if cached:
                self.plans = self._automatic(inputs, False, True)
        elif cached or declared.sums:
            # What has no version is planned where a plan is needed anyway, but never found again.
            needed = differentiated or declared.sums
            build = needed or not any([x.is_inference() for x in inputs])
            self.plans = self._automatic(inputs, build, cached)
            self.automatic = cached and self.plans is not None
            self.keeps_plans = self.plans is not None
        else:
            self.keeps_plans = False

    def _automatic(self, inputs: Sequence[Tensor], build: bool, cached: bool) -> tuple[RowPlan, ...] | None:
        rows, counts = self.layout.rows, self.layout.counts
        return execute.automatic_plans(self.declared, inputs, self.flat, self.positions, rows, counts, build, cached)

    def plans_of(self, inputs: Sequence[Tensor | None]) -> tuple[RowPlan, ...]:
        """Plans for a backward whose forward kept none: every index is among these inputs."""
        flat = self.flat_of(inputs)
        rows, counts = self.layout.rows, self.layout.counts
        found = execute.automatic_plans(
            self.declared, inputs, flat, self.positions, rows, counts, True, setting.enabled  # type: ignore[arg-type]
        )
        assert found is not None, "plans that are missing are built"
        return found

    def settle(self, planned: bool) -> None:
        """Keeps what a backward needs, and nothing else as long as the graph lives."""
        if not planned:
            self.plans = None
            self.flat = ()
            return
        kinds = self.declared.kinds
        self.flat = [x.detach() if kind == "index" else None for kind, x in zip(kinds, self.flat, strict=True)]  # type: ignore[misc]

    def remember(
        self,
        recent: Recent,
        inputs: tuple[Tensor, ...],
        plans: tuple[RowPlan, ...],
        plan: Plans | None,
        versions: Sequence[int | None] | None,
        generation: int,
    ) -> None:
        """Remembers this call, which has run through these plans, if one like it may be launched without asking again.

        `plan` is what the caller gave; None for plans that were found by the indices, which had these `versions`
        then. `generation` is that of `recent` before.
        """
        if not inputs[0].is_cuda or len(self.positions) > 1:
            return
        if plan is None and not all([used.cached for used in plans]):
            return
        stream = private.stream_of(inputs[0])
        if any([used.made_on != stream for used in plans]):
            return
        memory = [(buffer.like, buffer.tensors, buffer.shape, buffer.dtype) for buffer in self.layout.buffers]
        launch = recent.launch(inputs, stream, execute.native_plans(plans, stream), memory, versions)
        if launch is None:
            return
        kept = None
        if self.declared.reads_plans_alone:
            kept = copy.copy(self)
            kept.launch = launch
            kept.plans = plans
            kept.flat = inputs
            kept.settle(True)
        recent.keep(launch, plan, kept, generation)
        if plan is None:
            for used in plans:
                if not used.cached:
                    # It was dropped meanwhile.
                    recent.forget(used.state)

    def forward(self, apart: bool = False) -> list[Tensor]:
        """For each tensor of each output one that is no view; `apart` gives each memory of its own."""
        return execute.forward(
            self.declared, self.flat, self.positions, self.layout, self.plans, self.check, self.counts, apart
        )

    def backward(
        self, inputs: Sequence[Tensor | None], cotangents: Sequence[Tensor | None], wanted: Sequence[bool], plans: Sequence[RowPlan]
    ) -> list[Tensor | None]:
        """For each input its gradient, or None where it is not wanted. `inputs` are flat; one cotangent at least is given."""
        like = next(x for x in cotangents if x is not None)
        ready = [
            execute.zero_cotangent(like, shape, dtype) if x is None else execute.ready_cotangent(x)
            for x, (shape, dtype) in zip(cotangents, self._cotangents(like), strict=True)
        ]
        gradients = [
            (shape, dtype) if want else None for shape, dtype, want in zip(self.shapes, self.dtypes, wanted, strict=True)
        ]
        return execute.backward(self.declared, inputs, ready, gradients, plans)

    def _cotangents(self, like: Tensor) -> list[tuple[tuple[int, int], torch.dtype]]:
        """Shape and type of each tensor's cotangent."""
        return [
            (result.shape, like.dtype if result.dtype is None else result.dtype) for result in self.layout.apart
        ]

    # What a call whose arguments are not the kernel's inputs does otherwise.

    def inputs_of(self, arguments: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        """The kernel's inputs; None where an argument that one is made of is None."""
        return arguments

    def wanted_of(self, needed: Sequence[bool]) -> tuple[bool, ...]:
        """Of each input whether its gradient is wanted, from whether each argument's is."""
        return tuple([need and able for need, able in zip(needed, self.declared.differentiable, strict=True)])

    def arguments_of(self, read: Sequence[bool]) -> Sequence[bool]:
        """Of each argument whether an input that is read is made of it."""
        return read

    def gradients_of(self, gradients: Sequence[Tensor | None], needed: Sequence[bool]) -> Sequence[Tensor | None]:
        """The gradient of each argument from those of the inputs."""
        return gradients
