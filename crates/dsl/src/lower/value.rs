//! What an expression is.

use rowloom_codegen::ir::{FloatType, InputId, Op};

use crate::errors::Site;

/// A value while the declaration is lowered. Rows become nodes only where they
/// are returned or summed, so that chunks nobody names cost nothing.
#[derive(Clone)]
pub enum Value {
    /// An index, or a combination of indices.
    Affine(Affine),
    /// A row per position.
    Rows(Rows),
    /// A table as a whole: an input not yet indexed.
    Table(InputId),
    /// Several values: the chunks of a row, or an array.
    Array(Vec<(Value, Site)>),
    /// A sum over positions, of one chunk or several.
    Sum(Sum),
    /// Several outputs.
    Tuple(Vec<(Value, Site)>),
    /// Reported already.
    Refused,
}

/// `offset + sum of factor * index`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affine {
    /// Factor of each index, in declaration order, none of them 0.
    pub terms: Vec<(InputId, u64)>,
    /// Constant part.
    pub offset: u64,
}

/// A row per position, not yet a node.
#[derive(Clone)]
pub struct Rows {
    /// How it is read.
    pub op: Op,
    /// Its element type.
    pub ty: FloatType,
    /// Where.
    pub site: Site,
}

/// A sum over positions, not yet a node: its row count is that of the output.
#[derive(Clone)]
pub struct Sum {
    /// What is summed, chunk by chunk.
    pub chunks: Vec<Rows>,
    /// Into which row.
    pub row: Affine,
    /// Where the index stands.
    pub row_site: Site,
    /// All of it.
    pub site: Site,
}

impl Value {
    /// What it is, in the user's words.
    pub fn what(&self) -> String {
        match self {
            Value::Affine(affine) if affine.terms.is_empty() => "a number".to_owned(),
            Value::Affine(_) => "an index".to_owned(),
            Value::Rows(_) => "one row per position".to_owned(),
            Value::Table(_) => "a whole table".to_owned(),
            Value::Array(items) => format!("an array of {}", items.len()),
            Value::Sum(sum) if sum.chunks.len() == 1 => "a sum into a table".to_owned(),
            Value::Sum(sum) => format!("a sum into a table of {} chunks", sum.chunks.len()),
            Value::Tuple(items) => format!("a tuple of {}", items.len()),
            Value::Refused => "a value".to_owned(),
        }
    }
}

impl Affine {
    /// A number.
    pub fn constant(offset: u64) -> Affine {
        Affine { terms: vec![], offset }
    }

    /// `self + other`; `None` when a factor does not fit 64 bits.
    pub fn plus(&self, other: &Affine) -> Option<Affine> {
        let mut sum = self.clone();
        sum.offset = sum.offset.checked_add(other.offset)?;
        for &(index, factor) in &other.terms {
            match sum.terms.binary_search_by_key(&index, |&(index, _)| index) {
                Ok(at) => sum.terms[at].1 = sum.terms[at].1.checked_add(factor)?,
                Err(at) => sum.terms.insert(at, (index, factor)),
            }
        }
        Some(sum)
    }

    /// `self * factor`; `None` when a factor does not fit 64 bits.
    pub fn times(&self, factor: u64) -> Option<Affine> {
        let scaled = |&(index, own): &(InputId, u64)| Some((index, own.checked_mul(factor)?));
        let terms = self.terms.iter().map(scaled).collect::<Option<_>>()?;
        Some(Affine { terms, offset: self.offset.checked_mul(factor)? })
    }
}
