//! The sources that runs with given sizes can ask for.

use std::collections::HashSet;

use rowloom_codegen::ir::{InputId, Order};
use rowloom_codegen::{Accumulate, Arch, DType, IntType, SClass, Source, Spec, Subject, Verified, Wants};
use rowloom_runtime::cache::pack_key;
use rowloom_runtime::{Declaration, sources};

use crate::error::{Error, Result};
use crate::kernels::{self, RowCount};

/// Sizes and types of one kind of call.
pub struct Sizes<'a> {
    pub dtype: DType,
    pub int: IntType,
    pub rows: &'a [RowCount],
    pub hidden: u64,
    /// Stored type of gradients in place of the tables' own.
    pub gradient: Option<DType>,
    pub arch: Arch,
    /// S of the calls; empty for every S.
    pub positions: &'a [u64],
}

/// A source for an architecture, and in words what it is for.
pub struct Piece {
    pub source: Source,
    pub arch: Arch,
    pub sizes: String,
}

/// Sources without those of equal text, in a fixed order.
#[derive(Default)]
pub struct Pieces {
    seen: HashSet<rowloom_runtime::cache::Key>,
    pub list: Vec<Piece>,
    /// Kernels and plans that the sources are of, some more than once, each with its architecture.
    pub subjects: Vec<(Subject, Arch)>,
}

/// One S of each class, unless the blocks are so large that there are fewer.
const EVERY_CLASS: [u64; 3] = [1, SClass::SHORT, u32::MAX as u64];

impl Pieces {
    /// Adds what calls of a kernel of these sizes load: forward and backward, planned
    /// and checked, in the declared order of sums and with the other accumulator.
    pub fn add(&mut self, declared: &Declaration, sizes: &Sizes<'_>) -> Result<()> {
        let order = declared.forward().order;
        let other = match order.accumulate {
            Accumulate::F32 => Accumulate::F64,
            Accumulate::F64 => Accumulate::F32,
        };
        let other = declared.with_order(Order { accumulate: other, ..order }).map_err(Error::failed)?;
        for (declaration, is_declared) in [(declared, true), (&other, false)] {
            let forward = declaration.forward();
            let counts = kernels::counts(forward, sizes.rows)?;
            let mut add = |kernel: &Verified| {
                // Without sums over positions both orders are one kernel.
                if is_declared || kernel.sums() { self.add_kernel(forward, kernel, &counts, sizes) } else { Ok(()) }
            };
            add(forward)?;
            for wants in wants(forward) {
                add(&declaration.backward(&wants))?;
            }
        }
        Ok(())
    }

    fn add_kernel(&mut self, forward: &Verified, kernel: &Verified, counts: &[u64], sizes: &Sizes<'_>) -> Result<()> {
        // A backward has some of the forward's row counts.
        let named = forward.counts.iter().zip(counts);
        let counts: Vec<u64> =
            named.filter(|(name, _)| kernel.counts.contains(name)).map(|(_, count)| *count).collect();
        let mut spec = Spec::contiguous(kernel, sizes.dtype, sizes.int, &counts, sizes.hidden);
        if let Some(ty) = sizes.gradient {
            sources::store_gradients_as(kernel, &mut spec, ty);
        }
        spec.arch = sizes.arch;
        spec.check(kernel).map_err(Error::usage)?;
        let modes: &[bool] = if kernel.sums() || kernel.rows.is_empty() { &[true] } else { &[true, false] };
        let positions = if sizes.positions.is_empty() { &EVERY_CLASS[..] } else { sizes.positions };
        for &planned in modes {
            for &positions in positions {
                spec.s_class = SClass::of(positions, kernel.order.block);
                spec.planned = planned;
                self.subjects.push((Subject::Kernel { kernel: kernel.clone(), spec: spec.clone() }, sizes.arch));
                self.subjects.extend(
                    sources::plan_shapes(kernel, &spec).into_iter().map(|shape| (Subject::Plan(shape), sizes.arch)),
                );
                for source in sources::of_call(kernel, &spec).map_err(Error::failed)? {
                    self.push(source, sizes.arch, describe(kernel, &spec));
                }
            }
        }
        Ok(())
    }

    /// Adds a source, unless it is there.
    pub fn push(&mut self, source: Source, arch: Arch, sizes: String) {
        if self.seen.insert(pack_key(&source, arch)) {
            self.list.push(Piece { source, arch, sizes });
        }
    }
}

/// All gradients together, and each alone.
pub fn wants(forward: &Verified) -> Vec<Wants> {
    let inputs = (0..forward.inputs.len() as u32).map(InputId);
    let mut wants: Vec<Wants> = inputs.filter_map(|input| Wants::of(forward, [input])).collect();
    if wants.len() > 1 {
        wants.push(Wants::all(forward));
    }
    wants
}

/// What a person looks for in a manifest.
fn describe(kernel: &Verified, spec: &Spec) -> String {
    let floats = kernel.floats.iter().map(|param| &param.name).zip(spec.floats.iter().map(ToString::to_string));
    let ints = kernel.ints.iter().zip(spec.ints.iter().map(ToString::to_string));
    let counts = kernel.counts.iter().zip(spec.counts.iter().map(ToString::to_string));
    let mut words: Vec<String> =
        floats.chain(ints).chain(counts).map(|(name, value)| format!("{name} = {value}")).collect();
    words.push(format!("H = {}", spec.hidden));
    words.push(match spec.s_class {
        SClass::OneBlock => format!("S up to {}", kernel.order.block),
        SClass::Short => format!("S up to {}", SClass::SHORT),
        SClass::Long => "S beyond".to_owned(),
    });
    if kernel.sums() {
        words.push(format!("{} sums", kernel.order.accumulate));
    }
    words.join(", ")
}
