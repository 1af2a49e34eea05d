//! A launch of one kernel of this module, and what its tensors must be.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use rowloom_codegen::cuda::{Count, Entry, Param, Step};
use rowloom_codegen::ir::InputId;
use rowloom_codegen::{DType, Source};

use crate::element::ElementType;
use crate::engine::{Queue, Use};
use crate::error::Error;
use crate::launch::{Place, Places, TensorPlaces, enqueue};
use crate::modules::Ready;
use crate::tensor::AnyView;

const KERNELS: &str = include_str!("kernels.cu");
const ROWS: &str = include_str!("rows.cpp");

/// What is loaded for an accelerator.
#[derive(Default)]
pub(super) struct Loaded {
    ready: RefCell<HashMap<Text, Arc<Ready>>>,
}

/// What the text of a kernel is specialised for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Text {
    /// Of `kernels.cu`, for a GPU.
    Gpu { entry: &'static str, dtype: DType, rows: u64, hidden: u64, factor: u64, unroll: u64 },
    /// Of `rows.cpp`, for every accelerator: words of so many bytes, so many at once.
    Rows { entry: &'static str, word_bytes: u64, lanes: u64, columns: u64 },
}

/// One launch.
pub(super) struct Launch<'a> {
    pub(super) text: Text,
    pub(super) threads: u32,
    pub(super) grid: Count,
    pub(super) params: Vec<Param>,
    pub(super) positions: u64,
    pub(super) inputs: &'a [AnyView<'a>],
    pub(super) outputs: &'a [AnyView<'a>],
}

impl Loaded {
    /// Queues a launch whose tensors are on the queue's device.
    pub(super) fn run(&self, queue: &Arc<Queue>, launch: &Launch<'_>) -> Result<(), Error> {
        let ready = self.ready(queue, launch)?;
        let queue = queue.submit()?;
        let places = |views: &[AnyView<'_>], how| {
            views.iter().map(|view| Place::joined(&queue, view, how)).collect::<Result<TensorPlaces, Error>>()
        };
        let (inputs, outputs) = (places(launch.inputs, Use::Read)?, places(launch.outputs, Use::Write)?);
        let places = Places { positions: launch.positions, inputs, outputs, ..Places::default() };
        enqueue(&queue, &ready, &places, None)
    }

    fn ready(&self, queue: &Queue, launch: &Launch<'_>) -> Result<Arc<Ready>, Error> {
        if let Some(ready) = self.ready.borrow().get(&launch.text) {
            return Ok(ready.clone());
        }
        let ready = queue.engine.ready(launch.source())?;
        self.ready.borrow_mut().insert(launch.text, ready.clone());
        Ok(ready)
    }
}

impl Launch<'_> {
    pub(super) fn source(&self) -> Source {
        let (entry, header, body) = self.text.written();
        let step = Entry {
            name: entry.to_owned(),
            threads: self.threads,
            grid: self.grid,
            early: false,
            resident: None,
            params: self.params.clone(),
        };
        Source {
            name: format!("baseline_{entry}"),
            header,
            body,
            steps: vec![Step::Launch(step)],
            scratch: Vec::new(),
            error: None,
        }
    }
}

impl Text {
    /// Entry, header, body.
    fn written(self) -> (&'static str, String, String) {
        match self {
            Text::Gpu { entry, dtype, rows, hidden, factor, unroll } => {
                let (element, number) = match dtype {
                    DType::F32 => ("unsigned int", 0),
                    DType::F16 => ("unsigned short", 1),
                    DType::Bf16 => ("unsigned short", 2),
                };
                // The entry is named in the text: sources of one text are taken for one source.
                let header = format!(
                    "// baseline: {entry}\n#define ELEMENT {element}\n#define DTYPE {number}\n#define ROWS {rows}ull\n\
                     #define HIDDEN {hidden}ull\n#define FACTOR {factor}ull\n#define UNROLL {unroll}\n"
                );
                (entry, header, KERNELS.to_owned())
            }
            Text::Rows { entry, word_bytes, lanes, columns } => {
                let word = format!("rl_u{}", 8 * word_bytes);
                // The emulation compiles a body once, whatever stands above it: sizes go inside.
                let body = ROWS.replace("WORD", &word);
                let body = body.replace("LANES", &lanes.to_string()).replace("COLUMNS", &format!("{columns}ull"));
                (entry, String::new(), format!("// baseline: {entry}\n{body}"))
            }
        }
    }
}

pub(super) fn input(number: u32) -> Param {
    Param::Input { input: InputId(number), element: 0 }
}

pub(super) fn input_stride(number: u32) -> Param {
    Param::InputStride { input: InputId(number), element: 0 }
}

pub(super) fn output(number: u32) -> Param {
    Param::Output { output: number, tensor: 0 }
}

pub(super) fn output_stride(number: u32) -> Param {
    Param::OutputStride { output: number, tensor: 0 }
}

pub(super) fn float(argument: &str, view: &AnyView<'_>) -> Result<DType, Error> {
    match view.element_type() {
        ElementType::Float(dtype) => Ok(dtype),
        found @ (ElementType::Int(_) | ElementType::U32) => {
            let expected = "f32, f16 or bf16".to_owned();
            Err(Error::ElementType { argument: argument.to_owned(), expected, found })
        }
    }
}

/// Checks a tensor's type and sizes.
pub(super) fn expect_size(
    argument: &str,
    view: &AnyView<'_>,
    ty: ElementType,
    rows: u64,
    columns: u64,
) -> Result<(), Error> {
    view.expect_type(argument, ty)?;
    for (axis, found, expected) in [("rows", view.row_count(), rows), ("columns", view.column_count(), columns)] {
        if found != expected {
            let because = "the other tensors have".to_owned();
            return Err(Error::Size { argument: argument.to_owned(), axis, found, expected, because });
        }
    }
    Ok(())
}

/// The same, and that its rows follow one another.
pub(super) fn expect(
    argument: &str,
    view: &AnyView<'_>,
    ty: ElementType,
    rows: u64,
    columns: u64,
) -> Result<(), Error> {
    expect_size(argument, view, ty, rows, columns)?;
    contiguous(argument, view).map(drop)
}

/// Elements of a tensor whose rows follow one another.
pub(super) fn contiguous(argument: &str, view: &AnyView<'_>) -> Result<u64, Error> {
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
