//! What is compared: every kernel in both directions × element types × accumulators × packings,
//! sizes and ways to lie.

use std::sync::Arc;

use rowloom_codegen::ir::{Direction, Order};
use rowloom_codegen::{Accumulate, DType, IntType, SClass, Spec, Verified, Wants};
use rowloom_op_adaln::layout::Packing;
use rowloom_runtime::Registered;

use crate::error::{Error, Result};

/// One call, run under several schedules, with one digest.
pub struct Case {
    /// Unique, one line, no two spaces in a row.
    pub name: String,
    pub kernel: Arc<Verified>,
    pub dtype: DType,
    pub int: IntType,
    /// Row counts, in the kernel's order.
    pub counts: Vec<u64>,
    /// S.
    pub positions: u64,
    /// H.
    pub hidden: u64,
    /// How positions fall on rows.
    pub packing: Packing,
    /// Rows of every tensor lie apart, at odd offsets.
    pub apart: bool,
    /// Every legal schedule; else one of each kind.
    pub every_schedule: bool,
}

/// What varies beside kernel, element type and accumulator.
struct Shape {
    packing: Packing,
    rows: u64,
    positions: u64,
    hidden: u64,
    int: IntType,
    apart: bool,
    every_schedule: bool,
}

const SHAPES: [Shape; 10] = {
    const USUAL: Shape = Shape {
        packing: Packing::Interleaved,
        rows: 9,
        positions: 4097,
        hidden: 264,
        int: IntType::I64,
        apart: false,
        every_schedule: false,
    };
    [
        Shape { every_schedule: true, ..USUAL },
        Shape { packing: Packing::Block, ..USUAL },
        Shape { packing: Packing::T2va15s, ..USUAL },
        Shape { packing: Packing::Ref2va, ..USUAL },
        Shape { positions: 832, hidden: 5376, ..USUAL },
        Shape { positions: 1, hidden: 8, ..USUAL },
        Shape { positions: 257, hidden: 5, int: IntType::I32, ..USUAL },
        Shape { positions: 832, hidden: 40, int: IntType::U8, apart: true, ..USUAL },
        Shape { positions: 600, rows: 4098, hidden: 8, ..USUAL },
        Shape { positions: 20_000, hidden: 24, packing: Packing::Block, ..USUAL },
    ]
};

/// Every case of these kernels.
pub fn of_kernels(kernels: &[&'static Registered]) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for registered in kernels {
        let declared = (registered.declaration)();
        for accumulate in [Accumulate::F32, Accumulate::F64] {
            let order = Order { accumulate, ..declared.forward().order };
            let declared = declared.with_order(order).map_err(Error::failed)?;
            let wants = Wants::all(declared.forward());
            for kernel in [Arc::new(declared.forward().clone()), declared.backward(&wants)] {
                // Without sums the accumulator is of no consequence.
                if kernel.outputs.is_empty() || (!kernel.sums() && accumulate == Accumulate::F64) {
                    continue;
                }
                for dtype in DType::ALL {
                    cases.extend(SHAPES.iter().filter_map(|shape| Case::new(&kernel, dtype, shape)));
                }
            }
        }
    }
    Ok(cases)
}

impl Case {
    /// `None` when no row count near the wanted one fits the kernel.
    fn new(kernel: &Arc<Verified>, dtype: DType, shape: &Shape) -> Option<Case> {
        let &Shape { packing, positions, hidden, apart, every_schedule, .. } = shape;
        // Bounds may ask for multiples, and a pad for a type that holds it.
        let counts = |rows: u64| vec![rows; kernel.counts.len()];
        let fits =
            |int: IntType, rows: u64| Spec::contiguous(kernel, dtype, int, &counts(rows), hidden).check(kernel).is_ok();
        let near = |int: IntType| (shape.rows..shape.rows + 1024).find(|&rows| fits(int, rows));
        let (int, rows) = match (near(shape.int), near(IntType::I64)) {
            (Some(rows), _) => (shape.int, rows),
            (None, rows) => (IntType::I64, rows?),
        };
        let (kernel_name, way, accumulate) = (&kernel.name, kernel.direction, kernel.order.accumulate);
        let accumulate = if kernel.sums() { format!(" {accumulate} sums") } else { String::new() };
        let lie = if apart { " apart" } else { "" };
        let packing_name = packing.name();
        let way = match way {
            Direction::Forward => "forward",
            Direction::Backward => "backward",
        };
        let name = format!(
            "{kernel_name} {way} {dtype}{accumulate} {int} R={rows} S={positions} H={hidden} {packing_name}{lie}"
        );
        let (kernel, counts) = (kernel.clone(), counts(rows));
        Some(Case { name, kernel, dtype, int, counts, positions, hidden, packing, apart, every_schedule })
    }

    /// Types and sizes of its tensors.
    pub fn spec(&self) -> Spec {
        let mut spec = Spec::contiguous(&self.kernel, self.dtype, self.int, &self.counts, self.hidden);
        spec.s_class = SClass::of(self.positions, self.kernel.order.block);
        spec
    }

    /// Row counts by their names.
    pub fn named_counts(&self) -> Vec<(&str, u64)> {
        self.kernel.counts.iter().map(String::as_str).zip(self.counts.iter().copied()).collect()
    }
}
