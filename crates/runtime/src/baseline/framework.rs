//! The steps of a framework. Sums on a GPU are atomic, in whatever order threads
//! arrive; on a CPU they follow the positions.

use rowloom_codegen::IntType;
use rowloom_codegen::cuda::{Count, Param};

use super::launch::{Launch, Text, contiguous, expect, expect_size, float, input, input_stride, output, output_stride};
use super::{Baseline, Target, on_cpu};
use crate::element::ElementType;
use crate::error::Error;
use crate::tensor::{AnyView, AnyViewMut};

/// What indices are here.
const INDEX: ElementType = ElementType::Int(IntType::I64);

const THREADS: u32 = 256;

impl Baseline {
    /// `rows[s] += factor * index[s]`: how a framework combines indices of i64.
    ///
    /// # Errors
    /// Sizes and types that do not fit; what the device reports.
    pub fn add_index(&self, rows: &mut AnyViewMut<'_>, index: AnyView<'_>, factor: u64) -> Result<(), Error> {
        let positions = rows.as_view().row_count();
        for (name, view) in [("the rows", rows.as_view()), ("the index", index)] {
            expect(name, &view, INDEX, positions, 1)?;
        }
        if let Target::Cpu = self.target(&[rows.as_view(), index])? {
            on_cpu::add_index(rows, index, factor);
            return Ok(());
        }
        let dtype = rowloom_codegen::DType::F32;
        self.run_on_gpu(&Launch {
            text: Text::Gpu { entry: "add_index", dtype, rows: 1, hidden: 8, factor, unroll: 1 },
            threads: THREADS,
            grid: Count::Positions { per: u64::from(THREADS), each: 1 },
            params: vec![output(0), input(0), Param::Positions],
            positions,
            inputs: &[index],
            outputs: &[rows.as_view()],
        })
    }

    /// `out[s] = table[rows[s]]`: the table, or one chunk of it, and an (S, H) tensor.
    ///
    /// # Errors
    /// Sizes and types that do not fit; what the device reports.
    pub fn select(&self, out: &mut AnyViewMut<'_>, table: AnyView<'_>, rows: AnyView<'_>) -> Result<(), Error> {
        let text = by_rows("select", &table, &out.as_view(), &rows)?;
        if let Target::Cpu = self.target(&[out.as_view(), table, rows])? {
            on_cpu::select(out, table, rows);
            return Ok(());
        }
        let params = vec![output(0), input(0), input(1), input_stride(0), Param::Positions];
        self.by_rows(text, params, &[table, rows], &[out.as_view()])
    }

    /// `sums[rows[s], first + h] += values[s, h]`, each addition rounded to the tensor's type.
    ///
    /// # Errors
    /// Sizes and types that do not fit; what the device reports.
    pub fn scatter_add(
        &self,
        sums: &mut AnyViewMut<'_>,
        first: u64,
        values: AnyView<'_>,
        rows: AnyView<'_>,
    ) -> Result<(), Error> {
        let columns = first..first.saturating_add(values.column_count());
        let target = self.target(&[sums.as_view(), values, rows])?;
        let table = sums.as_view().columns(columns)?;
        let text = by_rows("scatter_add", &table, &values, &rows)?;
        if let Target::Cpu = target {
            let layout = table.layout;
            on_cpu::scatter_add(sums, layout, values, rows);
            return Ok(());
        }
        let params = vec![output(0), input(0), input(1), output_stride(0), Param::Positions];
        self.by_rows(text, params, &[values, rows], &[table])
    }

    fn by_rows(
        &self,
        text: Text,
        params: Vec<Param>,
        inputs: &[AnyView<'_>],
        outputs: &[AnyView<'_>],
    ) -> Result<(), Error> {
        let grid = Count::Positions { per: 1, each: 1 };
        self.run_on_gpu(&Launch {
            text,
            threads: THREADS,
            grid,
            params,
            positions: inputs[1].row_count(),
            inputs,
            outputs,
        })
    }

    /// `out = left + right`, each sum rounded to the tensors' type.
    ///
    /// # Errors
    /// Sizes and types that do not fit; what the device reports.
    pub fn add(&self, out: &mut AnyViewMut<'_>, left: AnyView<'_>, right: AnyView<'_>) -> Result<(), Error> {
        let view = out.as_view();
        let dtype = float("the sum", &view)?;
        for (name, summand) in [("the left summand", left), ("the right summand", right)] {
            expect(name, &summand, view.element_type(), view.row_count(), view.column_count())?;
        }
        let positions = contiguous("the sum", &view)?;
        if let Target::Cpu = self.target(&[view, left, right])? {
            on_cpu::add(out, left, right);
            return Ok(());
        }
        self.run_on_gpu(&Launch {
            text: Text::Gpu { entry: "add", dtype, rows: 1, hidden: 8, factor: 1, unroll: 1 },
            threads: THREADS,
            grid: Count::Positions { per: u64::from(THREADS), each: 1 },
            params: vec![output(0), input(0), input(1), Param::Positions],
            positions,
            inputs: &[left, right],
            outputs: &[view],
        })
    }

    /// Sets every element to one.
    ///
    /// # Errors
    /// A tensor with gaps between its rows; what the device reports.
    pub fn fill_ones(&self, tensor: &mut AnyViewMut<'_>) -> Result<(), Error> {
        let view = tensor.as_view();
        let positions = contiguous("the tensor", &view)?;
        let dtype = float("the tensor", &view)?;
        match self.target(&[view])? {
            Target::Cpu => {
                on_cpu::fill_ones(tensor);
                return Ok(());
            }
            Target::Emulated => {
                let ones = on_cpu::ones(view.element_type(), positions);
                return tensor.upload(&self.stream, &ones);
            }
            Target::Gpu => {}
        }
        self.run_on_gpu(&Launch {
            text: Text::Gpu { entry: "fill_ones", dtype, rows: 1, hidden: 8, factor: 1, unroll: 1 },
            threads: THREADS,
            grid: Count::Positions { per: u64::from(THREADS) * 64, each: 1 },
            params: vec![output(0), Param::Positions],
            positions,
            inputs: &[],
            outputs: &[view],
        })
    }
}

/// The text of a step over a table and positions that name its rows.
fn by_rows(
    entry: &'static str,
    table: &AnyView<'_>,
    positions: &AnyView<'_>,
    rows: &AnyView<'_>,
) -> Result<Text, Error> {
    let (count, hidden) = (positions.row_count(), positions.column_count());
    let dtype = float("the tensor", positions)?;
    contiguous("the tensor", positions)?;
    expect("the rows", rows, INDEX, count, 1)?;
    expect_size("the table", table, positions.element_type(), table.row_count(), hidden)?;
    Ok(Text::Gpu { entry, dtype, rows: table.row_count(), hidden, factor: 1, unroll: 1 })
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;
    use crate::{AnyTensor, Device};

    fn baseline() -> Baseline {
        Baseline::new(&Device::cpu().stream().expect("a CPU"))
    }

    #[test]
    fn a_scatter_add_rounds_after_every_addition_in_the_order_of_positions() {
        let baseline = baseline();
        let stream = baseline.stream();
        // 1 + 2^-8 is a tie that goes back to 1, and 2^-8 + 2^-8 is exact.
        let small = 2f32.powi(-8);
        let values: Vec<bf16> = [1.0, small, small, small, small, 1.0].map(bf16::from_f32).to_vec();
        let values = AnyTensor::from_slice(stream, &values, 6, 1).expect("values");
        let rows = AnyTensor::from_slice(stream, &[0i64, 0, 0, 1, 1, 1], 6, 1).expect("rows");
        let mut sums = AnyTensor::zeros(stream, values.element_type(), 3, 1).expect("sums");
        baseline.scatter_add(&mut sums.view_mut(), 0, values.view(), rows.view()).expect("added");
        let sums: Vec<f32> = sums.to_vec::<bf16>(stream).expect("sums").into_iter().map(f32::from).collect();
        assert_eq!(sums, [1.0, 1.0 + 2.0 * small, 0.0]);
    }

    #[test]
    fn a_select_copies_rows_of_a_chunk() {
        let baseline = baseline();
        let stream = baseline.stream();
        let table = AnyTensor::from_slice(stream, &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], 2, 4).expect("a table");
        let mut rows = AnyTensor::zeros(stream, INDEX, 3, 1).expect("rows");
        let index = AnyTensor::from_slice(stream, &[1i64, 0, 1], 3, 1).expect("an index");
        baseline.add_index(&mut rows.view_mut(), index.view(), 1).expect("added");
        let mut out = AnyTensor::zeros(stream, table.element_type(), 3, 2).expect("out");
        let chunk = table.view().columns(2..4).expect("a chunk");
        baseline.select(&mut out.view_mut(), chunk, rows.view()).expect("selected");
        assert_eq!(out.to_vec::<f32>(stream).expect("out"), [7.0, 8.0, 3.0, 4.0, 7.0, 8.0]);
        let mut doubled = AnyTensor::zeros(stream, table.element_type(), 3, 2).expect("out");
        baseline.add(&mut doubled.view_mut(), out.view(), out.view()).expect("added");
        assert_eq!(doubled.to_vec::<f32>(stream).expect("out"), [14.0, 16.0, 6.0, 8.0, 14.0, 16.0]);
        baseline.fill_ones(&mut doubled.view_mut()).expect("filled");
        assert_eq!(doubled.to_vec::<f32>(stream).expect("out"), [1.0; 6]);
    }
}
