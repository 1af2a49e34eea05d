//! What rowloom is measured against on a GPU: the steps of a framework, each
//! with its result in memory, and memory itself. For reports only; no kernel of
//! rowloom uses any of it. Sums here are atomic: their order is whatever
//! threads make it.
//!
//! All work is queued. A row outside the table is skipped.

use std::sync::Arc;

use rowloom_codegen::cuda::{Count, Entry, Param, Step};
use rowloom_codegen::ir::InputId;
use rowloom_codegen::{DType, IntType, Source};

use crate::device::{Lane, Stream};
use crate::element::ElementType;
use crate::engine::{DeviceMemory, Queue};
use crate::error::Error;
use crate::launch::{Place, Places, execute};
use crate::tensor::{AnyView, AnyViewMut};

const KERNELS: &str = include_str!("kernels.cu");

/// What indices are here.
const INDEX: ElementType = ElementType::Int(IntType::I64);

/// Bytes that a thread moves at once.
const QUAD: u64 = 16;

/// Quads of a thread that plain loops over memory are tried with.
pub const UNROLLS: [u64; 3] = [2, 4, 8];

/// `rows[s] += factor * index[s]`: how a framework combines indices of i64.
///
/// # Errors
/// Sizes and types that do not fit; what the device reports.
pub fn add_index(stream: &Stream, rows: &mut AnyViewMut<'_>, index: AnyView<'_>, factor: u64) -> Result<(), Error> {
    let rows = rows.as_view();
    let positions = rows.row_count();
    for (name, view) in [("the rows", rows), ("the index", index)] {
        expect(name, &view, INDEX, positions, 1)?;
    }
    let launch = Launch { factor, ..Launch::new("add_index", DType::F32, positions, 256) };
    let params = vec![output(0), input(0), Param::Positions];
    launch.run(stream, Count::Positions { per: 256, each: 1 }, params, &[index], &[rows])
}

/// `out[s] = table[rows[s]]`: the table, or one chunk of it, and an (S, H) tensor.
///
/// # Errors
/// Sizes and types that do not fit; what the device reports.
pub fn select(stream: &Stream, out: &mut AnyViewMut<'_>, table: AnyView<'_>, rows: AnyView<'_>) -> Result<(), Error> {
    by_rows(stream, "select", table, out.as_view(), rows, false)
}

/// `sums[rows[s]] += values[s]`, each addition atomic and rounded to the tensor's type.
///
/// # Errors
/// Sizes and types that do not fit; what the device reports.
pub fn scatter_add(
    stream: &Stream,
    sums: &mut AnyViewMut<'_>,
    values: AnyView<'_>,
    rows: AnyView<'_>,
) -> Result<(), Error> {
    by_rows(stream, "scatter_add", sums.as_view(), values, rows, true)
}

fn by_rows(
    stream: &Stream,
    entry: &'static str,
    table: AnyView<'_>,
    positions: AnyView<'_>,
    rows: AnyView<'_>,
    writes_table: bool,
) -> Result<(), Error> {
    let (count, hidden) = (positions.row_count(), positions.column_count());
    let dtype = float("the tensor", &positions)?;
    expect("the tensor", &positions, positions.element_type(), count, hidden)?;
    expect("the rows", &rows, INDEX, count, 1)?;
    if table.column_count() != hidden || table.element_type() != positions.element_type() {
        let because = "the tensor has".to_owned();
        let found = table.column_count();
        return Err(Error::Size {
            argument: "the table".to_owned(),
            axis: "columns",
            found,
            expected: hidden,
            because,
        });
    }
    let launch = Launch { rows: table.row_count(), hidden, ..Launch::new(entry, dtype, count, 256) };
    let grid = Count::Positions { per: 1, each: 1 };
    if writes_table {
        let params = vec![output(0), input(0), input(1), output_stride(0), Param::Positions];
        launch.run(stream, grid, params, &[positions, rows], &[table])
    } else {
        let params = vec![output(0), input(0), input(1), input_stride(0), Param::Positions];
        launch.run(stream, grid, params, &[table, rows], &[positions])
    }
}

/// Sets every element to one.
///
/// # Errors
/// A tensor with gaps between its rows; what the device reports.
pub fn fill_ones(stream: &Stream, tensor: &mut AnyViewMut<'_>) -> Result<(), Error> {
    let view = tensor.as_view();
    let count = contiguous("the tensor", &view)?;
    let launch = Launch::new("fill_ones", float("the tensor", &view)?, count, 256);
    let params = vec![output(0), Param::Positions];
    launch.run(stream, Count::Positions { per: 256 * 64, each: 1 }, params, &[], &[view])
}

/// Reads a tensor and keeps nothing, `unroll` quads of a thread at a time.
///
/// # Errors
/// A tensor with gaps between its rows; what the device reports.
pub fn read(stream: &Stream, tensor: AnyView<'_>, sink: &mut AnyViewMut<'_>, unroll: u64) -> Result<(), Error> {
    let launch = Launch::memory("read", quads("the tensor", &tensor)?, unroll);
    let params = vec![input(0), output(0), Param::Positions];
    launch.run(stream, memory_grid(unroll), params, &[tensor], &[sink.as_view()])
}

/// Writes zeros, `unroll` quads of a thread at a time.
///
/// # Errors
/// A tensor with gaps between its rows; what the device reports.
pub fn write(stream: &Stream, tensor: &mut AnyViewMut<'_>, unroll: u64) -> Result<(), Error> {
    let view = tensor.as_view();
    let launch = Launch::memory("write", quads("the tensor", &view)?, unroll);
    launch.run(stream, memory_grid(unroll), vec![output(0), Param::Positions], &[], &[view])
}

/// Copies, `unroll` quads of a thread at a time.
///
/// # Errors
/// Tensors with gaps between their rows or of unequal sizes; what the device reports.
pub fn copy(stream: &Stream, to: &mut AnyViewMut<'_>, from: AnyView<'_>, unroll: u64) -> Result<(), Error> {
    let to = to.as_view();
    expect("the source", &from, to.element_type(), to.row_count(), to.column_count())?;
    let launch = Launch::memory("copy", quads("the target", &to)?, unroll);
    let params = vec![output(0), input(0), Param::Positions];
    launch.run(stream, memory_grid(unroll), params, &[from], &[to])
}

/// One launch and what its text is specialised for.
struct Launch {
    entry: &'static str,
    dtype: DType,
    positions: u64,
    threads: u32,
    rows: u64,
    hidden: u64,
    factor: u64,
    unroll: u64,
}

impl Launch {
    fn new(entry: &'static str, dtype: DType, positions: u64, threads: u32) -> Launch {
        Launch { entry, dtype, positions, threads, rows: 1, hidden: 8, factor: 1, unroll: 1 }
    }

    fn memory(entry: &'static str, quads: u64, unroll: u64) -> Launch {
        Launch { unroll, ..Launch::new(entry, DType::F32, quads, 256) }
    }

    fn source(&self, grid: Count, params: Vec<Param>) -> Source {
        let (element, number) = match self.dtype {
            DType::F32 => ("unsigned int", 0),
            DType::F16 => ("unsigned short", 1),
            DType::Bf16 => ("unsigned short", 2),
        };
        let Launch { entry, threads, rows, hidden, factor, unroll, .. } = *self;
        // The entry is named in the text: sources of one text are taken for one source.
        let header = format!(
            "// baseline: {entry}\n#define ELEMENT {element}\n#define DTYPE {number}\n#define ROWS {rows}ull\n\
             #define HIDDEN {hidden}ull\n#define FACTOR {factor}ull\n#define UNROLL {unroll}\n"
        );
        Source {
            name: format!("baseline_{entry}"),
            header,
            body: KERNELS.to_owned(),
            steps: vec![Step::Launch(Entry { name: entry.to_owned(), threads, grid, params })],
            scratch: Vec::new(),
            error: None,
        }
    }

    fn run(
        &self,
        stream: &Stream,
        grid: Count,
        params: Vec<Param>,
        inputs: &[AnyView<'_>],
        outputs: &[AnyView<'_>],
    ) -> Result<(), Error> {
        let queue = gpu(stream)?;
        for view in inputs.iter().chain(outputs) {
            if view.device() != stream.device() {
                return Err(view.wrong_device("a tensor", stream));
            }
        }
        let places = |views: &[AnyView<'_>]| {
            views.iter().map(|view| Ok(vec![Place::of(queue, view)?])).collect::<Result<Vec<_>, Error>>()
        };
        let places =
            Places { positions: self.positions, inputs: places(inputs)?, outputs: places(outputs)?, plans: Vec::new() };
        let ready = queue.engine.ready(self.source(grid, params))?;
        execute(queue, &ready, &places, &mut DeviceMemory::allocate(queue, 0)?).map(drop)
    }
}

fn gpu(stream: &Stream) -> Result<&Arc<Queue>, Error> {
    match &stream.0 {
        Lane::Accelerator(queue) if queue.engine.accelerator.name().starts_with("cuda") => Ok(queue),
        Lane::Accelerator(_) | Lane::Cpu(_) => Err(Error::OnlyGpu),
    }
}

fn memory_grid(unroll: u64) -> Count {
    Count::Positions { per: 256 * unroll, each: 1 }
}

fn input(number: u32) -> Param {
    Param::Input { input: InputId(number), element: 0 }
}

fn input_stride(number: u32) -> Param {
    Param::InputStride { input: InputId(number), element: 0 }
}

fn output(number: u32) -> Param {
    Param::Output { output: number, tensor: 0 }
}

fn output_stride(number: u32) -> Param {
    Param::OutputStride { output: number, tensor: 0 }
}

fn float(argument: &str, view: &AnyView<'_>) -> Result<DType, Error> {
    match view.element_type() {
        ElementType::Float(dtype) => Ok(dtype),
        found @ (ElementType::Int(_) | ElementType::U32) => {
            let expected = "f32, f16 or bf16".to_owned();
            Err(Error::ElementType { argument: argument.to_owned(), expected, found })
        }
    }
}

/// Checks a tensor's type and sizes, and that its rows follow one another.
fn expect(argument: &str, view: &AnyView<'_>, ty: ElementType, rows: u64, columns: u64) -> Result<(), Error> {
    view.expect_type(argument, ty)?;
    for (axis, found, expected) in [("rows", view.row_count(), rows), ("columns", view.column_count(), columns)] {
        if found != expected {
            let because = "the other tensors have".to_owned();
            return Err(Error::Size { argument: argument.to_owned(), axis, found, expected, because });
        }
    }
    contiguous(argument, view).map(drop)
}

/// Elements of a tensor whose rows follow one another.
fn contiguous(argument: &str, view: &AnyView<'_>) -> Result<u64, Error> {
    let (found, expected) = (view.row_stride(), view.column_count());
    if found != expected && view.row_count() > 1 {
        let because = "rows must follow one another".to_owned();
        return Err(Error::Size {
            argument: argument.to_owned(),
            axis: "elements from row to row",
            found,
            expected,
            because,
        });
    }
    Ok(view.row_count() * view.column_count())
}

/// Whole quads of a tensor.
fn quads(argument: &str, view: &AnyView<'_>) -> Result<u64, Error> {
    Ok(contiguous(argument, view)? * view.element_type().bytes() / QUAD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AnyTensor, Device, Nvrtc};
    use rowloom_codegen::Arch;

    #[test]
    fn every_entry_compiles_for_every_type() {
        let nvrtc = Nvrtc::find().unwrap_or_else(|error| panic!("{error}\n`cargo xtask nvrtc` fetches one"));
        for (entry, dtypes) in [
            ("select", &DType::ALL[..]),
            ("scatter_add", &DType::ALL),
            ("fill_ones", &DType::ALL),
            ("add_index", &[DType::F32]),
        ] {
            for &dtype in dtypes {
                for arch in [80, 90] {
                    let launch = Launch { hidden: 5376, rows: 9, ..Launch::new(entry, dtype, 1, 256) };
                    let compiled = nvrtc.compile(&launch.source(Count::Fixed(1), Vec::new()), Arch(arch));
                    assert_eq!(compiled.expect(entry).log, "", "{entry}, {dtype}, sm_{arch}");
                }
            }
        }
        for (entry, unroll) in ["read", "write", "copy"].iter().flat_map(|entry| UNROLLS.map(|unroll| (*entry, unroll)))
        {
            let source = Launch::memory(entry, 1, unroll).source(Count::Fixed(1), Vec::new());
            assert_eq!(nvrtc.compile(&source, Arch::SM_90).expect(entry).log, "", "{entry}, {unroll}");
        }
    }

    #[test]
    fn a_cpu_is_refused() {
        let stream = Device::cpu().stream().expect("a CPU");
        let mut tensor = AnyTensor::zeros(&stream, ElementType::Float(DType::Bf16), 4, 4).expect("a tensor");
        assert!(matches!(fill_ones(&stream, &mut tensor.view_mut()), Err(Error::OnlyGpu)));
    }
}
