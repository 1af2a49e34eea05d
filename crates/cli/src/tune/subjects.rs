//! What a search tunes of a kernel: its calls in both directions, and their plans.

use rowloom_codegen::cuda::Term;
use rowloom_codegen::ir::{Direction, InputKind, Kernel, Order, RowId};
use rowloom_codegen::{Accumulate, Arch, SClass, Spec, Subject, Verified, Wants};
use rowloom_runtime::{Declaration, sources};

use super::protocol::Index;
use super::{Args, Only};
use crate::error::{Error, Result};
use crate::kernels;

/// A subject and what people call it.
#[derive(Clone, Debug)]
pub struct Named {
    /// `backward, planned, f64 sums`.
    pub name: String,
    /// Of which part.
    pub part: Only,
    /// The subject.
    pub subject: Subject,
    /// Its indices, in their order.
    pub indices: Vec<Index>,
    /// Bytes that a call reads and writes at least, each once.
    pub read_bytes: u64,
    /// See above.
    pub written_bytes: u64,
}

impl Named {
    /// Bytes of what it moves most of.
    pub fn most_bytes(&self) -> u64 {
        self.read_bytes.max(self.written_bytes)
    }
}

/// What is fixed for all of them.
pub struct Sizes<'a> {
    /// Of the command line.
    pub args: &'a Args,
    /// Element type.
    pub dtype: rowloom_codegen::DType,
    /// What sources are generated for.
    pub arch: Arch,
}

/// Everything that is to be tuned at one S.
pub fn subjects(declaration: &Declaration, sizes: &Sizes<'_>, positions: u64) -> Result<Vec<Named>> {
    let forward = declaration.forward();
    let mut all = Vec::new();
    let declared = forward.order.accumulate;
    let other = match declared {
        Accumulate::F32 => Accumulate::F64,
        Accumulate::F64 => Accumulate::F32,
    };
    let counts = kernels::counts(forward, &sizes.args.rows)?;
    let counts: Vec<(&String, u64)> = forward.counts.iter().zip(counts).collect();
    for accumulate in [declared, other] {
        let ordered = declaration.with_order(Order { accumulate, ..forward.order }).map_err(Error::failed)?;
        let backward = ordered.backward(&Wants::all(ordered.forward()));
        for (kernel, part) in [(ordered.forward(), Only::Forward), (&*backward, Only::Backward)] {
            // What sums takes a plan, and depends on the type of its sums.
            let modes: &[bool] = match (kernel.sums() || kernel.rows.is_empty(), accumulate == declared) {
                (true, true) => &[true],
                (true, false) if kernel.sums() => &[true],
                (false, true) => &[true, false],
                (true | false, false) => &[],
            };
            for &planned in modes {
                all.push(of_kernel(kernel, part, planned, sizes, &counts, positions)?);
            }
            if accumulate == declared {
                add_plans(&mut all, kernel, sizes, &counts, positions)?;
            }
        }
    }
    let rank = |named: &Named| (named.part as u8, !matches!(&named.subject, Subject::Plan(_)));
    all.sort_by_key(rank);
    let only = &sizes.args.only;
    all.retain(|named| only.is_empty() || only.contains(&named.part));
    Ok(all)
}

fn spec(
    kernel: &Verified,
    sizes: &Sizes<'_>,
    counts: &[(&String, u64)],
    positions: u64,
    planned: bool,
) -> Result<Spec> {
    let args = sizes.args;
    // A backward has some of the forward's row counts.
    let counts = counts.iter().filter(|(name, _)| kernel.counts.contains(name)).map(|&(_, count)| count);
    let counts: Vec<u64> = counts.collect();
    let mut spec = Spec::contiguous(kernel, sizes.dtype, args.index, &counts, args.hidden);
    if let Some(gradient) = args.gradient {
        sources::store_gradients_as(kernel, &mut spec, gradient);
    }
    spec.s_class = SClass::of(positions, kernel.order.block);
    spec.planned = planned;
    spec.arch = sizes.arch;
    spec.check(kernel).map_err(Error::usage)?;
    Ok(spec)
}

fn of_kernel(
    kernel: &Verified,
    part: Only,
    planned: bool,
    sizes: &Sizes<'_>,
    counts: &[(&String, u64)],
    positions: u64,
) -> Result<Named> {
    let spec = spec(kernel, sizes, counts, positions, planned)?;
    let mut name = match kernel.direction {
        Direction::Forward => "forward".to_owned(),
        Direction::Backward => "backward".to_owned(),
    };
    name += if planned { ", planned" } else { ", checked" };
    if kernel.sums() {
        name += &format!(", {} sums", kernel.order.accumulate);
    }
    let (read_bytes, written_bytes) = traffic(kernel, &spec, positions);
    let indices = kernel.inputs.iter().filter_map(|input| match input.kind {
        InputKind::Index { bound, .. } => Some(Index { name: input.name.clone(), bound: spec.extent(bound) }),
        InputKind::Rows(_) | InputKind::Table { .. } => None,
    });
    let indices = indices.collect();
    let subject = Subject::Kernel { kernel: kernel.clone(), spec };
    Ok(Named { name, part, subject, indices, read_bytes, written_bytes })
}

/// Bytes of tensors with a row per position.
fn traffic(kernel: &Kernel, spec: &Spec, positions: u64) -> (u64, u64) {
    use rowloom_codegen::ir::OutputKind;
    let rows = |ty, count: u64| count * u64::from(spec.float(ty).bytes()) * spec.hidden * positions;
    let read = kernel.inputs.iter().map(|input| match input.kind {
        InputKind::Rows(ty) => rows(ty, input.count.into()),
        InputKind::Table { .. } | InputKind::Index { .. } => 0,
    });
    let written = kernel.outputs.iter().map(|output| match output.kind {
        OutputKind::Rows(ty) => rows(ty, output.values.len() as u64),
        OutputKind::Table { .. } => 0,
    });
    (read.sum(), written.sum())
}

/// The plans that its calls build, those that are not there yet: of its row expressions, and of rows
/// that are given.
fn add_plans(
    all: &mut Vec<Named>,
    kernel: &Verified,
    sizes: &Sizes<'_>,
    counts: &[(&String, u64)],
    positions: u64,
) -> Result<()> {
    let spec = spec(kernel, sizes, counts, positions, true)?;
    for shape in sources::plan_shapes(kernel, &spec) {
        let subject = Subject::Plan(shape.clone());
        if all.iter().any(|named| named.subject == subject) {
            continue;
        }
        let declared = (0..).zip(&kernel.rows).find(|&(at, _)| sources::plan_shape(kernel, &spec, RowId(at)) == shape);
        let (name, indices): (String, Vec<&str>) = match declared {
            Some((_, row)) => {
                let indices = row.terms.iter().map(|&(input, _)| &*kernel.inputs[input.index()].name);
                (format!("plan of {}", kernel.row_text(row)), indices.collect())
            }
            None => (format!("plan of rows below {}", shape.rows), vec!["row"]),
        };
        let index = |(name, term): (&str, &Term)| Index { name: name.to_owned(), bound: term.bound };
        let read_bytes = shape.terms.iter().map(|term| positions * u64::from(term.ty.bytes())).sum();
        all.push(Named {
            name,
            part: Only::Plan,
            indices: indices.into_iter().zip(&shape.terms).map(index).collect(),
            subject,
            read_bytes,
            // Rows and order.
            written_bytes: 8 * positions,
        });
    }
    Ok(())
}
