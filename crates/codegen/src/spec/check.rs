//! Whether a Spec fits its kernel.

use crate::ir::{Extent, InputKind, Kernel, OutputKind};

use super::{Access, MAX_COLUMNS, MAX_ROWS, Spec, SpecError};

impl Spec {
    /// Whether it fits the kernel.
    pub fn check(&self, kernel: &Kernel) -> Result<(), SpecError> {
        let lengths = [
            ("float types", kernel.floats.len(), self.floats.len()),
            ("index types", kernel.ints.len(), self.ints.len()),
            ("row counts", kernel.counts.len(), self.counts.len()),
            ("inputs", kernel.inputs.len(), self.inputs.len()),
            ("outputs", kernel.outputs.len(), self.outputs.len()),
        ];
        for (what, expected, found) in lengths {
            if expected != found {
                return Err(SpecError::Length { kernel: kernel.name.clone(), what, expected, found });
            }
        }
        if self.hidden == 0 {
            return Err(SpecError::Zero { what: "H".to_owned() });
        }
        for (name, &count) in kernel.counts.iter().zip(&self.counts) {
            if count == 0 {
                return Err(SpecError::Zero { what: name.clone() });
            }
            // `{N * 3}` of a huge N would leave 64 bits before it is compared.
            if count > MAX_ROWS {
                return Err(SpecError::TooManyRows { name: name.clone(), rows: count, limit: MAX_ROWS });
            }
        }
        for (input, access) in kernel.inputs.iter().zip(&self.inputs) {
            let bytes = match input.kind {
                InputKind::Rows(ty) => self.float(ty).bytes(),
                InputKind::Table { ty, rows, chunks } => {
                    self.check_rows(kernel, &input.name, rows)?;
                    self.check_columns(&input.name, u64::from(chunks))?;
                    self.float(ty).bytes()
                }
                InputKind::Index { ty, bound, pad } => {
                    self.check_extent(kernel, &input.name, bound)?;
                    let ty = self.int(ty);
                    if let Some(pad) = pad.filter(|pad| !ty.holds(*pad)) {
                        return Err(SpecError::Pad { name: input.name.clone(), pad, ty });
                    }
                    // One number a position.
                    access.check(&input.name, ty.bytes(), 1)?;
                    continue;
                }
            };
            access.check(&input.name, bytes, self.hidden)?;
        }
        for (output, access) in kernel.outputs.iter().zip(&self.outputs) {
            let bytes = match output.kind {
                OutputKind::Rows(ty) => {
                    self.check_columns(&output.name, 1)?;
                    self.float(ty).bytes()
                }
                OutputKind::Table { ty, rows } => {
                    self.check_columns(&output.name, output.values.len() as u64)?;
                    self.check_rows(kernel, &output.name, rows)?;
                    self.float(ty).bytes()
                }
            };
            access.check(&output.name, bytes, self.hidden)?;
        }
        Ok(())
    }

    fn check_rows(&self, kernel: &Kernel, name: &str, rows: Extent) -> Result<(), SpecError> {
        let rows = self.check_extent(kernel, name, rows)?;
        if rows > MAX_ROWS {
            return Err(SpecError::TooManyRows { name: name.to_owned(), rows, limit: MAX_ROWS });
        }
        Ok(())
    }

    fn check_columns(&self, name: &str, chunks: u64) -> Result<(), SpecError> {
        if chunks.saturating_mul(self.hidden) <= MAX_COLUMNS {
            return Ok(());
        }
        Err(SpecError::TooWide { name: name.to_owned(), chunks, hidden: self.hidden, limit: MAX_COLUMNS })
    }

    fn check_extent(&self, kernel: &Kernel, name: &str, extent: Extent) -> Result<u64, SpecError> {
        let value = extent.value(&self.counts).ok_or_else(|| {
            let count = extent.count.expect("a literal always has a value");
            SpecError::Indivisible {
                kernel: kernel.name.clone(),
                name: name.to_owned(),
                extent: extent.text(&kernel.counts),
                count: kernel.counts[count.index()].clone(),
                value: self.counts[count.index()],
                unit: extent.denominator,
            }
        })?;
        if value == 0 {
            return Err(SpecError::Zero { what: format!("the bound of {name}") });
        }
        Ok(value)
    }
}

impl Access {
    fn check(self, name: &str, element_bytes: u32, columns: u64) -> Result<(), SpecError> {
        let bytes = self.vector_bytes;
        let fits = bytes.is_power_of_two() && (element_bytes..=Self::MAX_BYTES).contains(&bytes);
        if fits && columns.is_multiple_of(u64::from(bytes / element_bytes)) {
            return Ok(());
        }
        Err(SpecError::Access { name: name.to_owned(), vector_bytes: bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::{DType, IntType};
    use crate::ir::Verified;

    /// Two chunks a row, so that a row is aligned where its chunks are not.
    const PAIR: &str = "\
kernel pair forward
order block = 256, accumulate = f32
float T
int I
rows R
input table: table<T, R, 2>
input row: index<I, R>
row r0: R = row
v0: rows<T> = gather table[0] at r0
v1: rows<T> = gather table[1] at r0
output out: rows<T> = [v0, v1]
";

    fn refused(dtype: DType, hidden: u64, set: impl Fn(&mut Spec)) -> Option<SpecError> {
        let pair: Verified = Kernel::parse(PAIR).unwrap().verify().unwrap();
        let mut spec = Spec::contiguous(&pair, dtype, IntType::I64, &[9], hidden);
        set(&mut spec);
        spec.check(&pair).err()
    }

    #[test]
    fn an_access_covers_whole_elements_and_no_chunk_ends_inside_one() {
        let access = |name: &str, vector_bytes| Some(SpecError::Access { name: name.to_owned(), vector_bytes });
        for (dtype, hidden, widest) in [
            (DType::Bf16, 8, 16),
            (DType::Bf16, 12, 8),
            (DType::Bf16, 6, 4),
            (DType::Bf16, 5, 2),
            (DType::F32, 8, 16),
            (DType::F32, 6, 8),
            (DType::F32, 5, 4),
        ] {
            for bytes in [1, 2, 4, 8, 16, 32] {
                let legal = bytes <= widest && bytes >= dtype.bytes();
                let table = refused(dtype, hidden, |spec| spec.inputs[0].vector_bytes = bytes);
                let out = refused(dtype, hidden, |spec| spec.outputs[0].vector_bytes = bytes);
                let expected = |name| if legal { None } else { access(name, bytes) };
                assert_eq!((table, out), (expected("table"), expected("out")), "{dtype} H = {hidden}: {bytes} bytes");
            }
        }
        for bytes in [0, 3, 12] {
            assert_eq!(refused(DType::F32, 24, |spec| spec.inputs[0].vector_bytes = bytes), access("table", bytes));
        }
        // An index is read one number a position.
        assert_eq!(refused(DType::F32, 8, |spec| spec.inputs[1].vector_bytes = 16), access("row", 16));
    }
}
