//! Which type parameters and row counts are named where.

use rowloom_codegen::ir::{Extent, FloatType, IndexType, InputKind};

use crate::decl::{Decl, ReturnKind};

/// For each type parameter and row count, by its place: whether it is named.
pub struct Used {
    /// Float type parameters.
    pub floats: Vec<bool>,
    /// Integer type parameters.
    pub ints: Vec<bool>,
    /// Row counts.
    pub counts: Vec<bool>,
}

impl Used {
    fn none(decl: &Decl) -> Used {
        let generics = &decl.generics;
        Used {
            floats: vec![false; generics.floats.len()],
            ints: vec![false; generics.ints.len()],
            counts: vec![false; generics.counts.len()],
        }
    }

    fn float(&mut self, ty: FloatType) {
        if let FloatType::Param(param) = ty {
            self.floats[param.index()] = true;
        }
    }

    fn extent(&mut self, extent: Extent) {
        if let Some(count) = extent.count {
            self.counts[count.index()] = true;
        }
    }

    fn input(&mut self, kind: InputKind) {
        match kind {
            InputKind::Rows(ty) => self.float(ty),
            InputKind::Table { ty, rows, .. } => {
                self.float(ty);
                self.extent(rows);
            }
            InputKind::Index { ty, bound, .. } => {
                if let IndexType::Param(param) = ty {
                    self.ints[param.index()] = true;
                }
                self.extent(bound);
            }
        }
    }

    fn output(&mut self, kind: ReturnKind) {
        match kind {
            ReturnKind::Rows { ty, .. } => self.float(ty),
            ReturnKind::Table { ty, rows, .. } => {
                self.float(ty);
                self.extent(rows);
            }
        }
    }
}

/// By inputs.
pub fn input_generics(decl: &Decl) -> Used {
    let mut used = Used::none(decl);
    for kind in decl.params.iter().filter_map(|param| param.kind) {
        used.input(kind);
    }
    used
}

/// By inputs and outputs.
pub fn used_generics(decl: &Decl) -> Used {
    let mut used = input_generics(decl);
    for kind in decl.returns.iter().filter_map(|output| output.kind) {
        used.output(kind);
    }
    used
}

/// By outputs.
pub fn output_generics(decl: &Decl) -> Used {
    let mut used = Used::none(decl);
    for kind in decl.returns.iter().filter_map(|output| output.kind) {
        used.output(kind);
    }
    used
}

/// By inputs that have a gradient.
pub fn gradient_generics(decl: &Decl) -> Used {
    let mut used = Used::none(decl);
    for kind in decl.params.iter().filter_map(|param| param.kind) {
        if !matches!(kind, InputKind::Index { .. }) {
            used.input(kind);
        }
    }
    used
}

/// By inputs whose gradient always has their own type: those that are no tables.
pub fn rows_generics(decl: &Decl) -> Used {
    let mut used = Used::none(decl);
    for kind in decl.params.iter().filter_map(|param| param.kind) {
        if matches!(kind, InputKind::Rows(_)) {
            used.input(kind);
        }
    }
    used
}

/// For each row count, whether the shape of some table among the inputs tells it.
pub fn determined_counts(decl: &Decl) -> Vec<bool> {
    let mut used = Used::none(decl);
    for param in &decl.params {
        if let Some(InputKind::Table { rows, .. }) = param.kind {
            used.extent(rows);
        }
    }
    used.counts
}
