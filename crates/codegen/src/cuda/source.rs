//! Generated text and how to run it, as data.

use crate::ir::{InputId, RowId};

use super::Primitive;

/// Generated source: text, the steps that run it, and the scratch memory it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Unique per content but for the hash: kernel, direction and mode, as an identifier.
    pub name: String,
    /// Comment naming kernel, Spec, schedule, options and entries.
    pub header: String,
    /// The body.
    pub body: String,
    /// What to run, in order, on one stream.
    pub steps: Vec<Step>,
    /// Scratch memory, part by part. Its content before the first step is never read.
    pub scratch: Vec<Scratch>,
    /// The part that begins with the error word of a checking source: a u64, all ones
    /// when every index was in bounds, else `position * 256 + term` of the smallest bad
    /// position, `term` being the place of the index in its row expression's terms
    /// (of a kernel: the [`InputId`] of the index). A plan's goes on with its totals, u64
    /// too: blocks, partial sums, positions that have a row.
    pub error: Option<usize>,
}

/// For whom the text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// NVRTC.
    Device,
    /// g++ and the emulation.
    Host,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Set every byte of a scratch part.
    Fill {
        /// Index into [`Source::scratch`].
        scratch: usize,
        /// The byte.
        byte: u8,
    },
    /// Launch an entry.
    Launch(Entry),
}

/// One kernel launch. Every argument is 64 bits: a pointer or a u64.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Name of the `extern "C"` function.
    pub name: String,
    /// Threads of a block, all in x.
    pub threads: u32,
    /// Blocks wanted; at most 2^31 - 1 are launched, the body loops over the rest.
    pub grid: Count,
    /// Whether it may be launched before the launch before it has ended: it begins with
    /// `rl_begin`, which waits for that.
    pub early: bool,
    /// Blocks launched for each multiprocessor at most: these take all the work.
    pub resident: Option<u32>,
    /// Arguments in order.
    pub params: Vec<Param>,
}

/// A number known at the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// This many.
    Fixed(u64),
    /// `each` for every `per` positions begun.
    Positions {
        /// Positions that share.
        per: u64,
        /// How many they get.
        each: u64,
    },
    /// The same, for no more than `most` of them.
    UpTo {
        /// Positions that share.
        per: u64,
        /// How often at most.
        most: u64,
        /// How many they get.
        each: u64,
    },
    /// `each` for every `per` blocks begun of the plan of this row expression.
    Blocks {
        /// Whose plan.
        row: RowId,
        /// Blocks that share.
        per: u64,
        /// How many they get.
        each: u64,
    },
    /// `each` for every block of that plan that belongs to a row of several blocks.
    Partials {
        /// Whose plan.
        row: RowId,
        /// How many a block gets.
        each: u64,
    },
}

/// Scratch memory that one run needs for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scratch {
    /// Its name in the text.
    pub name: &'static str,
    /// Number of elements.
    pub elements: Count,
    /// Size of an element in bytes; also its alignment.
    pub element_bytes: u64,
}

/// An argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Param {
    /// Pointer to the first element of an input tensor. For a plan: its index of that number.
    Input {
        /// Which input.
        input: InputId,
        /// Which of its tensors.
        element: u32,
    },
    /// Elements from one row of it to the next.
    InputStride {
        /// Which input.
        input: InputId,
        /// Which of its tensors.
        element: u32,
    },
    /// Pointer to the first element of an output tensor.
    Output {
        /// Which output.
        output: u32,
        /// Which of its tensors.
        tensor: u32,
    },
    /// Elements from one row of it to the next.
    OutputStride {
        /// Which output.
        output: u32,
        /// Which of its tensors.
        tensor: u32,
    },
    /// S.
    Positions,
    /// Pointer to an array of a plan.
    Plan {
        /// Whose plan. For a plan itself: 0.
        row: RowId,
        /// Which array.
        array: PlanArray,
    },
    /// Number of blocks of a plan.
    Blocks(RowId),
    /// Number of positions of a plan that another is made of.
    PlanPositions(RowId),
    /// Pointer to a scratch part, by its index in [`Source::scratch`].
    Scratch(usize),
}

/// The arrays of a plan, each of u32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlanArray {
    /// (S,): row of each position, or [`PlanArray::NO_ROW`].
    Rows,
    /// (S,): positions sorted by row, ascending within a row; those without a row last.
    Order,
    /// (R + 1,): where each row's positions begin in the order; the last is their total.
    SegmentStart,
    /// (R + 1,): where each row's blocks begin in the block list. A row has at least one.
    BlockStart,
    /// (R + 1,): where the partial sums of each row of several blocks begin; rows of one have none.
    PartialStart,
    /// (blocks,): row of each block.
    BlockRow,
}

impl PlanArray {
    /// Every array.
    pub const ALL: [PlanArray; 6] = [
        PlanArray::Rows,
        PlanArray::Order,
        PlanArray::SegmentStart,
        PlanArray::BlockStart,
        PlanArray::PartialStart,
        PlanArray::BlockRow,
    ];

    /// The row of a position without one.
    pub const NO_ROW: u32 = u32::MAX;

    /// Where [`PlanArray::ALL`] has it.
    pub fn place(self) -> usize {
        match self {
            PlanArray::Rows => 0,
            PlanArray::Order => 1,
            PlanArray::SegmentStart => 2,
            PlanArray::BlockStart => 3,
            PlanArray::PartialStart => 4,
            PlanArray::BlockRow => 5,
        }
    }
}

impl Source {
    /// Floating point as written: no contraction, no flush to zero, IEEE division and square root.
    pub const OPTIONS: [&'static str; 4] = ["--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true"];

    /// The whole text for NVRTC, or for g++ beneath the emulation's own definitions.
    pub fn text(&self, target: Target) -> String {
        let mut text = self.header.clone();
        text.push('\n');
        for primitive in Primitive::used_by(&self.body, target) {
            text += primitive.text(target);
            text.push('\n');
        }
        text + &self.body
    }

    /// What there is to read of it: header, the names of the primitives that the body uses, body, steps.
    pub fn outline(&self) -> String {
        let primitives = Primitive::used_by(&self.body, Target::Device);
        let primitives: Vec<String> = primitives.iter().map(|primitive| format!("{primitive:?}")).collect();
        let step = |step: &Step| match step {
            Step::Fill { scratch, byte } => format!("// fill {} with {byte:#04x}", self.scratch[*scratch].name),
            Step::Launch(entry) => {
                let most = entry.resident.map_or_else(String::new, |most| format!(", at most {most} a multiprocessor"));
                format!("// launch {} <<<{:?}, {}>>>{most}", entry.name, entry.grid, entry.threads)
            }
        };
        let steps: Vec<String> = self.steps.iter().map(step).collect();
        format!("{}// primitives {}\n{}\n{}\n", self.header, primitives.join(" "), self.body, steps.join("\n"))
    }

    /// Hash of the device text: what a cache and a report name it by.
    pub fn hash(&self) -> blake3::Hash {
        blake3::hash(self.text(Target::Device).as_bytes())
    }

    /// Its launches in order.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.steps.iter().filter_map(|step| match step {
            Step::Launch(entry) => Some(entry),
            Step::Fill { .. } => None,
        })
    }
}
