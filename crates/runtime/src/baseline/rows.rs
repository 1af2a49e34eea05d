//! Rows gathered and compared where they lie, bit by bit, so that nothing but the
//! place of a difference comes back.

use std::ops::Range;

use rowloom_codegen::IntType;
use rowloom_codegen::cuda::{Count, Param};

use super::launch::{Launch, Text, expect_size, input, input_stride, output, output_stride};
use super::{Baseline, Target, on_cpu};
use crate::element::ElementType;
use crate::error::Error;
use crate::stream::Stream;
use crate::tensor::{AnyTensor, AnyView, AnyViewMut};

const THREADS: u32 = 128;

/// Row numbers on a device, many lists one after another.
pub struct RowList {
    rows: AnyTensor,
    /// Exclusive bound of all of them.
    bound: u64,
}

/// One list.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    rows: AnyView<'a>,
    bound: u64,
}

/// The rows of a tensor in their order, however many.
pub struct Counting(AnyTensor);

impl Counting {
    /// Up to `count` rows. Waits for the stream.
    ///
    /// # Errors
    /// What the device reports.
    pub fn new(stream: &Stream, count: u32) -> Result<Counting, Error> {
        let rows: Vec<u32> = (0..count).collect();
        Ok(Counting(AnyTensor::from_slice(stream, &rows, count.into(), 1)?))
    }

    /// The first `count` rows.
    ///
    /// # Errors
    /// [`Error::Range`] beyond its own count.
    pub fn first(&self, count: u64) -> Result<Rows<'_>, Error> {
        Ok(Rows { rows: self.0.view().rows(0..count)?, bound: count })
    }
}

impl RowList {
    /// A copy of `rows` on the stream's device. Waits for it.
    ///
    /// # Errors
    /// What the device reports.
    pub fn new(stream: &Stream, rows: &[u32]) -> Result<RowList, Error> {
        let bound = rows.iter().max().map_or(0, |&largest| u64::from(largest) + 1);
        Ok(RowList { rows: AnyTensor::from_slice(stream, rows, rows.len() as u64, 1)?, bound })
    }

    /// All of it as one list.
    pub fn all(&self) -> Rows<'_> {
        Rows { rows: self.rows.view(), bound: self.bound }
    }
}

impl<'a> Rows<'a> {
    /// A part of it as a list of its own.
    ///
    /// # Errors
    /// [`Error::Range`] beyond its end.
    pub fn part(self, range: Range<u64>) -> Result<Rows<'a>, Error> {
        Ok(Rows { rows: self.rows.rows(range)?, ..self })
    }

    /// How many rows it names.
    pub fn count(self) -> u64 {
        self.rows.row_count()
    }
}

/// Places of differences on a device: one for each comparison, found out at the end.
pub struct Found(AnyTensor);

impl Found {
    /// No difference in any of `count` comparisons.
    ///
    /// # Errors
    /// What the device reports.
    pub fn new(stream: &Stream, count: u64) -> Result<Found, Error> {
        let mut slots = AnyTensor::uninit(stream, ElementType::Int(IntType::I64), count, 1)?;
        slots.view_mut().fill(stream, 0xff)?;
        Ok(Found(slots))
    }

    /// For each comparison the first element that differed, as `row * H + column` of the rows
    /// compared. Waits for the stream.
    ///
    /// # Errors
    /// What the device reports.
    pub fn read(&self, stream: &Stream) -> Result<Vec<Option<u64>>, Error> {
        let slots = self.0.to_vec::<i64>(stream)?;
        Ok(slots.into_iter().map(|slot| (slot != -1).then_some(slot as u64)).collect())
    }
}

impl Baseline {
    /// `out[s] = source[rows[s]]`, of any element type.
    ///
    /// # Errors
    /// Sizes and types that do not fit; what the device reports.
    pub fn gather(&self, out: &mut AnyViewMut<'_>, source: AnyView<'_>, rows: Rows<'_>) -> Result<(), Error> {
        let view = out.as_view();
        let (ty, columns) = (source.element_type(), source.column_count());
        expect_size("the target", &view, ty, rows.count(), columns)?;
        inside(rows, &source)?;
        if let Target::Cpu = self.target(&[view, source, rows.rows])? {
            on_cpu::gather(out, source, rows.rows);
            return Ok(());
        }
        self.run(&Launch {
            text: text("gather_rows", &[view, source]),
            threads: THREADS,
            grid: Count::Positions { per: 1, each: 1 },
            params: vec![input(0), input_stride(0), input(1), output(0), output_stride(0), Param::Positions],
            positions: rows.count(),
            inputs: &[source, rows.rows],
            outputs: &[view],
        })
    }

    /// Compares `left[s]` with `right[rows[s]]` in every bit, as comparison `slot` of `found`.
    /// A comparison may be made of several calls: the smallest place counts.
    ///
    /// # Errors
    /// Sizes and types that do not fit; what the device reports.
    pub fn compare(
        &self,
        left: AnyView<'_>,
        right: AnyView<'_>,
        rows: Rows<'_>,
        found: &mut Found,
        slot: u64,
    ) -> Result<(), Error> {
        let (ty, columns) = (right.element_type(), right.column_count());
        expect_size("the left side", &left, ty, rows.count(), columns)?;
        inside(rows, &right)?;
        let mut slot = found.0.view_mut().rows(slot..slot + 1)?;
        if let Target::Cpu = self.target(&[left, right, rows.rows, slot.as_view()])? {
            on_cpu::compare(left, right, rows.rows, &mut slot);
            return Ok(());
        }
        let params = vec![input(0), input_stride(0), input(1), input_stride(1), input(2), output(0), Param::Positions];
        self.run(&Launch {
            text: text("compare_rows", &[left, right]),
            threads: THREADS,
            grid: Count::Positions { per: 1, each: 1 },
            params,
            positions: rows.count(),
            inputs: &[left, right, rows.rows],
            outputs: &[slot.as_view()],
        })
    }
}

fn inside(rows: Rows<'_>, of: &AnyView<'_>) -> Result<(), Error> {
    if rows.bound <= of.row_count() {
        return Ok(());
    }
    Err(Error::Range { what: "rows", start: 0, end: rows.bound, size: of.row_count() })
}

/// The text for these tensors of one type: words as wide as an element, as many at once as the
/// addresses allow.
fn text(entry: &'static str, views: &[AnyView<'_>]) -> Text {
    let (word_bytes, columns) = (views[0].element_type().bytes(), views[0].column_count());
    let mut aligned = 16 | (columns * word_bytes);
    for view in views {
        aligned |= view.address();
        if view.row_count() > 1 {
            aligned |= view.row_stride() * word_bytes;
        }
    }
    let bytes = (1 << aligned.trailing_zeros()).max(word_bytes);
    Text::Rows { entry, word_bytes, lanes: bytes / word_bytes, columns }
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;
    use crate::Device;

    fn streams() -> Vec<Stream> {
        let devices = [Device::cpu(), Device::emulated(3).expect("an emulated device")];
        devices.iter().map(|device| device.stream().expect("a stream")).collect()
    }

    #[test]
    fn the_first_difference_is_found_wherever_it_is() {
        for stream in streams() {
            let baseline = Baseline::new(&stream);
            for columns in [1u64, 5, 24] {
                let source: Vec<bf16> = (0..7 * columns).map(|bits| bf16::from_bits(bits as u16)).collect();
                let whole = AnyTensor::from_slice(&stream, &source, 7, columns).expect("a tensor");
                let list = RowList::new(&stream, &[6, 0, 3, 3, 1]).expect("a list");
                let rows = list.all().part(1..5).expect("a part");
                let mut picked = AnyTensor::uninit(&stream, whole.element_type(), 4, columns).expect("a tensor");
                baseline.gather(&mut picked.view_mut(), whole.view(), rows).expect("gathered");
                let mut elements = picked.to_vec::<bf16>(&stream).expect("elements");
                let row = |row: u64| &source[(row * columns) as usize..][..columns as usize];
                assert_eq!(elements, [row(0), row(3), row(3), row(1)].concat());

                let mut found = Found::new(&stream, 3).expect("slots");
                baseline.compare(picked.view(), whole.view(), rows, &mut found, 0).expect("compared");
                // One bit in the last column of row 2, and one later.
                for at in [3 * columns - 1, 4 * columns - 1] {
                    let bits = elements[at as usize].to_bits();
                    elements[at as usize] = bf16::from_bits(bits ^ 0x8000);
                }
                let other = AnyTensor::from_slice(&stream, &elements, 4, columns).expect("a tensor");
                baseline.compare(other.view(), whole.view(), rows, &mut found, 2).expect("compared");
                assert_eq!(found.read(&stream).expect("places"), [None, None, Some(3 * columns - 1)], "{stream:?}");
            }
        }
    }

    #[test]
    fn a_row_beyond_the_tensor_is_refused() {
        for stream in streams() {
            let baseline = Baseline::new(&stream);
            let whole = AnyTensor::from_slice(&stream, &[1i64, 2, 3], 3, 1).expect("a tensor");
            let mut out = AnyTensor::from_slice(&stream, &[0i64], 1, 1).expect("a tensor");
            let list = RowList::new(&stream, &[3]).expect("a list");
            let refused = baseline.gather(&mut out.view_mut(), whole.view(), list.all());
            assert!(matches!(refused, Err(Error::Range { what: "rows", end: 4, size: 3, .. })), "{refused:?}");
        }
    }
}
