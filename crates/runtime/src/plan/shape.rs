//! What a plan is built from.

use rowloom_codegen::spec::MAX_ROWS;

use crate::element::ElementType;
use crate::error::Error;
use crate::stream::Stream;
use crate::tensor::AnyView;

/// A row expression with its numbers: `offset + sum of factor * index`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RowShape {
    /// Its indices; at least one.
    pub terms: Vec<Term>,
    /// Constant part.
    pub offset: u64,
    /// R: every row that the bounds allow is below it.
    pub rows: u64,
    /// Positions of a block of the ordered sum.
    pub block: u32,
}

/// An index of a row expression.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Term {
    /// What errors call it.
    pub name: String,
    /// Its factor, at least 1.
    pub factor: u64,
    /// Exclusive bound of its values.
    pub bound: u64,
    /// The one value outside the bound that means "no row".
    pub pad: Option<i64>,
}

/// Most positions of a call: position numbers are 32 bits.
pub(crate) const MAX_POSITIONS: u64 = u32::MAX as u64;

/// Most indices of a plan.
const MAX_TERMS: usize = 256;

impl RowShape {
    /// The largest row that the bounds allow.
    pub(crate) fn largest(&self) -> u128 {
        let reach = |term: &Term| u128::from(term.factor) * u128::from(term.bound.saturating_sub(1));
        self.terms.iter().map(reach).fold(u128::from(self.offset), u128::saturating_add)
    }

    /// Whether indices of this shape are on the stream's device, of one length,
    /// and cannot name a row beyond the last. Gives the number of positions.
    pub(crate) fn check(&self, stream: &Stream, indices: &[AnyView<'_>]) -> Result<u64, Error> {
        if self.terms.len() != indices.len() || indices.is_empty() {
            let (expected, found) = (self.terms.len().max(1), indices.len());
            return Err(Error::Arguments { kernel: "the plan".to_owned(), what: "indices", expected, found });
        }
        let zero = |argument: &str, axis| Error::Zero { argument: argument.to_owned(), axis };
        if self.rows == 0 {
            return Err(zero("the plan", "rows"));
        }
        if self.block == 0 {
            return Err(zero("the plan", "positions a block"));
        }
        if self.rows > MAX_ROWS {
            return Err(Error::TooManyRows { rows: self.rows, limit: MAX_ROWS });
        }
        let largest = self.largest();
        if largest >= u128::from(self.rows) {
            return Err(Error::RowNumber { largest, rows: self.rows });
        }
        // The word of an error leaves 8 bits for the term.
        if self.terms.len() > MAX_TERMS {
            let (expected, found) = (MAX_TERMS, self.terms.len());
            return Err(Error::Arguments { kernel: "the plan".to_owned(), what: "indices at most", expected, found });
        }
        let first = (&self.terms[0].name, indices[0].row_count());
        for (term, index) in self.terms.iter().zip(indices) {
            check_index(stream, &term.name, index)?;
            if term.bound == 0 {
                return Err(zero(&format!("the bound of {}", term.name), "rows"));
            }
            check_term(term, index)?;
            if index.row_count() != first.1 {
                let because = format!("S is {} in {}", first.1, first.0);
                let (argument, axis, found) = (term.name.clone(), "positions", index.row_count());
                return Err(Error::Size { argument, axis, found, expected: first.1, because });
            }
        }
        check_blocks(first.1, self.rows, self.block)?;
        Ok(first.1)
    }
}

/// Whether blocks can be numbered.
pub(super) fn check_blocks(positions: u64, rows: u64, block: u32) -> Result<(), Error> {
    let blocks = positions / u64::from(block) + rows;
    let limit = u64::from(u32::MAX);
    if blocks > limit { Err(Error::TooManyBlocks { blocks, limit }) } else { Ok(()) }
}

/// Whether a term's factor counts and its pad is a number that its index may be and no row.
fn check_term(term: &Term, index: &AnyView<'_>) -> Result<(), Error> {
    let fault = |reason| Err(Error::PlanTerm { argument: term.name.clone(), reason });
    if term.factor == 0 {
        return fault("has the factor 0; it must be at least 1");
    }
    let Some(pad) = term.pad else { return Ok(()) };
    if u64::try_from(pad).is_ok_and(|pad| pad < term.bound) {
        return fault("has a pad inside its bound; choose a value outside, such as -1");
    }
    match index.element_type() {
        ElementType::Int(ty) if !ty.holds(pad) => fault("has a pad that its type cannot hold"),
        ElementType::Int(_) | ElementType::Float(_) | ElementType::U32 => Ok(()),
    }
}

/// Whether a view is an index on the stream's device.
pub(crate) fn check_index(stream: &Stream, name: &str, index: &AnyView<'_>) -> Result<(), Error> {
    let argument = name.to_owned();
    match index.element_type() {
        ElementType::Int(_) => {}
        found @ (ElementType::Float(_) | ElementType::U32) => {
            return Err(Error::ElementType { argument, expected: "u8, i32 or i64".to_owned(), found });
        }
    }
    if index.device() != stream.device() {
        return Err(index.wrong_device(name, stream));
    }
    if index.row_count() == 0 {
        return Err(Error::Zero { argument, axis: "positions" });
    }
    if index.column_count() != 1 {
        let because = "an index is one number a position".to_owned();
        return Err(Error::Size { argument, axis: "columns", found: index.column_count(), expected: 1, because });
    }
    if index.row_count() > MAX_POSITIONS {
        return Err(Error::TooManyPositions { argument, positions: index.row_count(), limit: MAX_POSITIONS });
    }
    Ok(())
}
