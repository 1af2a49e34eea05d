//! A declaration as written: own tree, names resolved to type parameters and
//! row counts, and everywhere the place it came from. Nothing after the parser
//! looks at Rust syntax again.

use proc_macro2::Ident;
use rowloom_codegen::ir::{Extent, FloatType, InputKind, Order, Tiles};
use syn::{Attribute, Visibility};

use crate::errors::Site;

/// One declared kernel.
pub struct Decl {
    /// Its doc comments.
    pub docs: Vec<Attribute>,
    /// Visibility, which the generated module takes over.
    pub vis: Visibility,
    /// Its name.
    pub name: Ident,
    /// What the attribute says.
    pub options: Options,
    /// Type parameters and row counts.
    pub generics: Generics,
    /// Inputs.
    pub params: Vec<Param>,
    /// Whether an input was left out, having no name to go by.
    pub lacks_params: bool,
    /// Outputs; empty when the return type is at fault.
    pub returns: Vec<Return>,
    /// `let` statements in order.
    pub lets: Vec<Let>,
    /// What is returned.
    pub result: Expr,
}

/// What the attribute says.
#[derive(Default)]
pub struct Options {
    /// Order of sums.
    pub order: Order,
    /// Where `order(...)` stands, if it does.
    pub order_site: Option<Site>,
    /// Narrowing of the schedules.
    pub tiles: Tiles,
}

/// Type parameters and row counts, each kind in declaration order.
#[derive(Default)]
pub struct Generics {
    /// `T: Float`.
    pub floats: Vec<Ident>,
    /// `I: Int`.
    pub ints: Vec<Ident>,
    /// `const R: usize`.
    pub counts: Vec<Ident>,
    /// Parameters with an error of their own, so that their uses are no errors too.
    pub broken: Vec<Ident>,
}

impl Generics {
    /// All of them.
    pub fn names(&self) -> impl Iterator<Item = &Ident> {
        [&self.floats, &self.ints, &self.counts, &self.broken].into_iter().flatten()
    }

    /// Names of the row counts.
    pub fn count_names(&self) -> Vec<String> {
        self.counts.iter().map(Ident::to_string).collect()
    }
}

/// One input.
pub struct Param {
    /// Its doc comments.
    pub docs: Vec<Attribute>,
    /// Its name.
    pub name: Ident,
    /// Its type; `None` when that is at fault.
    pub kind: Option<InputKind>,
    /// The type.
    pub site: Site,
    /// The value of `pad`, if given.
    pub pad_site: Option<Site>,
}

/// One output.
pub struct Return {
    /// Shape and type; `None` when at fault.
    pub kind: Option<ReturnKind>,
    /// The type.
    pub site: Site,
}

/// Shape and type of an output.
#[derive(Clone, Copy)]
pub enum ReturnKind {
    /// `Rows<T>` or `[Rows<T>; N]`.
    Rows {
        /// Element type.
        ty: FloatType,
        /// N of an array.
        array: Option<u32>,
    },
    /// `Table<T, R, C>`.
    Table {
        /// Element type.
        ty: FloatType,
        /// Row count.
        rows: Extent,
        /// C.
        chunks: u32,
    },
}

/// `let pattern = value;`
pub struct Let {
    /// The names it binds.
    pub pattern: Pattern,
    /// What they are bound to.
    pub value: Expr,
}

/// The left side of a `let`.
pub enum Pattern {
    /// `name`.
    Name(Ident),
    /// `[a, _, b, ..]`.
    Chunks {
        /// Names before `..`; `None` for `_`.
        before: Vec<Option<Ident>>,
        /// Names after `..`; `None` without `..`.
        after: Option<Vec<Option<Ident>>>,
        /// The brackets.
        site: Site,
    },
    /// Reported already.
    Refused,
}

impl Pattern {
    /// The names it binds.
    pub fn names(&self) -> Vec<&Ident> {
        match self {
            Pattern::Name(name) => vec![name],
            Pattern::Chunks { before, after, .. } => before.iter().chain(after.iter().flatten()).flatten().collect(),
            Pattern::Refused => vec![],
        }
    }
}

/// An expression.
pub enum Expr {
    /// `name`.
    Name(Ident),
    /// `3`.
    Integer(u64, Site),
    /// `left op right`.
    Binary {
        /// What is done.
        op: BinaryOp,
        /// The operator.
        op_site: Site,
        /// Left operand.
        left: Box<Expr>,
        /// Right operand.
        right: Box<Expr>,
        /// All of it.
        site: Site,
    },
    /// `base[index]`.
    Indexed {
        /// What is indexed.
        base: Box<Expr>,
        /// By what.
        index: Box<Expr>,
        /// All of it.
        site: Site,
    },
    /// `[a, b]`.
    Array(Vec<Expr>, Site),
    /// `(a, b)`.
    Tuple(Vec<Expr>, Site),
    /// `segment_sum(value, index)`.
    SegmentSum {
        /// What is summed.
        value: Box<Expr>,
        /// Into which rows.
        index: Box<Expr>,
        /// All of it.
        site: Site,
    },
    /// Reported already.
    Refused,
}

/// A binary operator.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum BinaryOp {
    /// `+`
    Add,
    /// `*`
    Mul,
    /// `-`
    Sub,
    /// `/`
    Div,
}

impl Expr {
    /// Where it is.
    pub fn site(&self) -> Site {
        match self {
            Expr::Name(name) => name.span().into(),
            Expr::Binary { site, .. }
            | Expr::Integer(_, site)
            | Expr::Indexed { site, .. }
            | Expr::Array(_, site)
            | Expr::Tuple(_, site)
            | Expr::SegmentSum { site, .. } => *site,
            Expr::Refused => proc_macro2::Span::call_site().into(),
        }
    }

    /// Whether no part of it was refused.
    pub fn is_whole(&self) -> bool {
        match self {
            Expr::Name(_) | Expr::Integer(..) => true,
            Expr::Refused => false,
            Expr::Binary { left: first, right: second, .. }
            | Expr::Indexed { base: first, index: second, .. }
            | Expr::SegmentSum { value: first, index: second, .. } => first.is_whole() && second.is_whole(),
            Expr::Array(items, _) | Expr::Tuple(items, _) => items.iter().all(Expr::is_whole),
        }
    }

    /// Calls `visit` with every name in it, in program order.
    pub fn each_name<'a>(&'a self, visit: &mut impl FnMut(&'a Ident)) {
        match self {
            Expr::Name(name) => visit(name),
            Expr::Integer(..) | Expr::Refused => {}
            Expr::Binary { left: first, right: second, .. }
            | Expr::Indexed { base: first, index: second, .. }
            | Expr::SegmentSum { value: first, index: second, .. } => {
                first.each_name(visit);
                second.each_name(visit);
            }
            Expr::Array(items, _) | Expr::Tuple(items, _) => {
                for item in items {
                    item.each_name(visit);
                }
            }
        }
    }
}
