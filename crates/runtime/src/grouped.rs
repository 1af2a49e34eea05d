//! Lists of tensors one after the other, by input and output.

use rowloom_codegen::ir::{Input, InputId, Kernel, Output};

/// Each input and its tensors.
pub(crate) fn inputs<'k, 'a, T>(kernel: &'k Kernel, mut all: &'a [T]) -> impl Iterator<Item = (&'k Input, &'a [T])> {
    kernel.inputs.iter().map_while(move |input| {
        let (tensors, rest) = all.split_at_checked(input.count as usize)?;
        all = rest;
        Some((input, tensors))
    })
}

/// Each output and its tensors.
pub(crate) fn outputs<'k, 'a, T>(kernel: &'k Kernel, mut all: &'a [T]) -> impl Iterator<Item = (&'k Output, &'a [T])> {
    kernel.outputs.iter().map_while(move |output| {
        let (tensors, rest) = all.split_at_checked(output.tensors())?;
        all = rest;
        Some((output, tensors))
    })
}

/// Where the tensors of an input begin.
pub(crate) fn start(kernel: &Kernel, input: InputId) -> usize {
    kernel.inputs[..input.index()].iter().map(|input| input.count as usize).sum()
}
