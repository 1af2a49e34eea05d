//! Tensors in host memory, of any element type.

use std::sync::Arc;

use half::{bf16, f16};

/// Elements of one type.
#[derive(Clone, Debug, PartialEq)]
pub enum Elements {
    /// IEEE binary32.
    F32(Vec<f32>),
    /// IEEE binary16.
    F16(Vec<f16>),
    /// The upper half of a binary32.
    Bf16(Vec<bf16>),
    /// Indices.
    I64(Vec<i64>),
}

/// Runs `$body` with `$values` bound to the vector, whatever its type.
macro_rules! with_elements {
    ($elements:expr, $values:ident => $body:expr) => {
        match $elements {
            $crate::report::host::Elements::F32($values) => $body,
            $crate::report::host::Elements::F16($values) => $body,
            $crate::report::host::Elements::Bf16($values) => $body,
            $crate::report::host::Elements::I64($values) => $body,
        }
    };
}
pub(crate) use with_elements;

impl Elements {
    /// Memory as it lies.
    #[cfg(test)]
    pub fn bytes(&self) -> &[u8] {
        with_elements!(self, values => bytemuck::cast_slice(values))
    }

    /// Element `at` as the number it is.
    pub fn number(&self, at: usize) -> f64 {
        match self {
            Elements::F32(values) => f64::from(values[at]),
            Elements::F16(values) => f64::from(values[at]),
            Elements::Bf16(values) => f64::from(values[at]),
            Elements::I64(values) => values[at] as f64,
        }
    }
}

/// A row-major matrix; an index is one column. Cheap to clone.
#[derive(Clone, Debug)]
pub struct HostTensor {
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub columns: usize,
    /// `rows · columns` of them.
    pub elements: Arc<Elements>,
}

impl HostTensor {
    /// A matrix of these elements.
    pub fn new(rows: usize, columns: usize, elements: Elements) -> HostTensor {
        HostTensor { rows, columns, elements: Arc::new(elements) }
    }

    /// Bytes of a row.
    #[cfg(test)]
    pub fn row(&self, row: usize) -> &[u8] {
        let bytes = self.elements.bytes();
        let width = bytes.len() / self.rows;
        &bytes[row * width..][..width]
    }

    /// These rows, in this order.
    pub fn select(&self, rows: &[u32]) -> HostTensor {
        let columns = self.columns;
        fn pick<E: Copy>(values: &[E], columns: usize, rows: &[u32]) -> Vec<E> {
            let mut picked = Vec::with_capacity(rows.len() * columns);
            for &row in rows {
                picked.extend_from_slice(&values[row as usize * columns..][..columns]);
            }
            picked
        }
        let elements = match &*self.elements {
            Elements::F32(values) => Elements::F32(pick(values, columns, rows)),
            Elements::F16(values) => Elements::F16(pick(values, columns, rows)),
            Elements::Bf16(values) => Elements::Bf16(pick(values, columns, rows)),
            Elements::I64(values) => Elements::I64(pick(values, columns, rows)),
        };
        HostTensor::new(rows.len(), columns, elements)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selected_rows_keep_their_bits() {
        let bits = [0x7f81, 0x8000, 0x0001, 0xffc1, 0x3f80, 0x0000];
        let tensor = HostTensor::new(3, 2, Elements::Bf16(bits.map(bf16::from_bits).to_vec()));
        let selected = tensor.select(&[2, 0, 2]);
        assert_eq!(selected.rows, 3);
        assert_eq!(selected.row(1), tensor.row(0));
        assert_eq!(selected.row(2), tensor.row(2));
        assert_eq!(selected.row(0), [0x80, 0x3f, 0x00, 0x00]);
    }
}
