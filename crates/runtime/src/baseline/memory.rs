//! Memory itself, and a clock that stands still: on a GPU alone.

use rowloom_codegen::DType;
use rowloom_codegen::cuda::{Count, Param};

use super::Baseline;
use super::launch::{Launch, Text, contiguous, expect, input, output};
use crate::element::ElementType;
use crate::error::Error;
use crate::tensor::{AnyView, AnyViewMut};

/// Bytes that a thread moves at once.
const QUAD: u64 = 16;

/// Quads of a thread that plain loops over memory are tried with.
pub const UNROLLS: [u64; 4] = [1, 2, 4, 8];

const THREADS: u32 = 256;

impl Baseline {
    /// Reads a tensor and keeps nothing, `unroll` quads of a thread at a time. `sink` is one u32,
    /// which is written only so that the compiler cannot leave out the reads.
    ///
    /// # Errors
    /// A tensor that is not whole quads one after another; another sink; what the device reports.
    pub fn read(&self, tensor: AnyView<'_>, sink: &mut AnyViewMut<'_>, unroll: u64) -> Result<(), Error> {
        expect("the sink", &sink.as_view(), ElementType::U32, 1, 1)?;
        let params = vec![input(0), output(0), Param::Positions];
        self.memory("read", quads("the tensor", &tensor)?, unroll, params, &[tensor], &[sink.as_view()])
    }

    /// Writes zeros, `unroll` quads of a thread at a time.
    ///
    /// # Errors
    /// A tensor that is not whole quads one after another; what the device reports.
    pub fn write(&self, tensor: &mut AnyViewMut<'_>, unroll: u64) -> Result<(), Error> {
        let view = tensor.as_view();
        let params = vec![output(0), Param::Positions];
        self.memory("write", quads("the tensor", &view)?, unroll, params, &[], &[view])
    }

    /// Copies, `unroll` quads of a thread at a time.
    ///
    /// # Errors
    /// Tensors of unequal types or sizes, or that are not whole quads one after another; what the device reports.
    pub fn copy(&self, to: &mut AnyViewMut<'_>, from: AnyView<'_>, unroll: u64) -> Result<(), Error> {
        let to = to.as_view();
        expect("the source", &from, to.element_type(), to.row_count(), to.column_count())?;
        quads("the source", &from)?;
        let params = vec![output(0), input(0), Param::Positions];
        self.memory("copy", quads("the target", &to)?, unroll, params, &[from], &[to])
    }

    /// Keeps the stream busy for `us` microseconds: what is queued meanwhile follows without a gap.
    ///
    /// # Errors
    /// What the device reports.
    pub fn delay(&self, us: u64) -> Result<(), Error> {
        let text = Text::Gpu { entry: "delay", dtype: DType::F32, rows: 1, hidden: 8, factor: 1, unroll: 1 };
        let (grid, params) = (Count::Fixed(1), vec![Param::Positions]);
        self.run_on_gpu(&Launch { text, threads: 32, grid, params, positions: us, inputs: &[], outputs: &[] })
    }

    fn memory(
        &self,
        entry: &'static str,
        quads: u64,
        unroll: u64,
        params: Vec<Param>,
        inputs: &[AnyView<'_>],
        outputs: &[AnyView<'_>],
    ) -> Result<(), Error> {
        self.target(&[inputs, outputs].concat())?;
        let text = Text::Gpu { entry, dtype: DType::F32, rows: 1, hidden: 8, factor: 1, unroll };
        let grid = Count::Positions { per: u64::from(THREADS) * unroll, each: 1 };
        self.run_on_gpu(&Launch { text, threads: THREADS, grid, params, positions: quads, inputs, outputs })
    }
}

/// How many quads a tensor is, if it is whole ones: an access off its own size ends a GPU's context.
fn quads(argument: &str, view: &AnyView<'_>) -> Result<u64, Error> {
    let bytes = contiguous(argument, view)? * view.element_type().bytes();
    let address = view.address();
    if !address.is_multiple_of(QUAD) {
        return Err(Error::Misaligned { argument: argument.to_owned(), address, of: QUAD });
    }
    if !bytes.is_multiple_of(QUAD) {
        let because = "memory is moved as many bytes at a time".to_owned();
        return Err(Error::NoMultiple {
            argument: argument.to_owned(),
            axis: "bytes",
            found: bytes,
            of: QUAD,
            because,
        });
    }
    Ok(bytes / QUAD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AnyTensor, Device};

    /// Whatever is refused here is refused before the device is looked at: a CPU tells as well.
    #[test]
    fn only_whole_aligned_quads_are_moved() {
        let baseline = Baseline::new(&Device::cpu().stream().expect("a CPU"));
        let tensor = |ty, rows, columns| AnyTensor::zeros(baseline.stream(), ty, rows, columns).expect("a tensor");
        let bf16 = ElementType::Float(DType::Bf16);
        // Rows of 18 bytes: the second begins 2 bytes off, and one is no whole quads.
        let (mut odd, whole) = (tensor(bf16, 9, 9), tensor(bf16, 8, 9));
        let mut sink = tensor(ElementType::U32, 1, 1);
        for (rows, is_off, is_whole) in [(1..9, true, true), (0..1, false, false), (0..8, false, true)] {
            let view = odd.view().rows(rows.clone()).expect("rows");
            let other = whole.view().rows(0..rows.end - rows.start).expect("rows");
            let results = [
                baseline.read(view, &mut sink.view_mut(), 2),
                baseline.copy(&mut tensor(bf16, rows.end - rows.start, 9).view_mut(), view, 2),
                baseline.copy(&mut odd.view_mut().rows(rows.clone()).expect("rows"), other, 2),
                baseline.write(&mut odd.view_mut().rows(rows.clone()).expect("rows"), 2),
            ];
            for result in results {
                let refused = match (is_off, is_whole) {
                    (true, _) => matches!(&result, Err(Error::Misaligned { address, of: 16, .. }) if address % 16 == 2),
                    (false, false) => {
                        matches!(&result, Err(Error::NoMultiple { axis: "bytes", found: 18, of: 16, .. }))
                    }
                    (false, true) => matches!(&result, Err(Error::OnlyGpu)),
                };
                assert!(refused, "{rows:?}: {result:?}");
            }
        }
        let small = baseline.read(whole.view(), &mut tensor(ElementType::Float(DType::F16), 1, 1).view_mut(), 2);
        assert!(matches!(&small, Err(Error::ElementType { argument, .. }) if argument == "the sink"), "{small:?}");
        let none = baseline.read(whole.view(), &mut tensor(ElementType::U32, 1, 2).view_mut(), 2);
        assert!(matches!(&none, Err(Error::Size { argument, .. }) if argument == "the sink"), "{none:?}");
    }
}
