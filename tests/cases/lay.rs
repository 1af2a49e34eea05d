//! Tensors as views into larger buffers.

use half::{bf16, f16};
use rowloom::codegen::{DType, IntType};
use rowloom::{AnyTensor, AnyView, AnyViewMut, ElementType, Error, Stream};

/// What lies in a buffer where no row of its tensor does: NaN in every float type, an index out
/// of almost every bound.
pub const POISON: u8 = 0xFF;

/// Bytes of poison behind a tensor's last row.
const TAIL: u64 = 64;

/// One tensor of the host, row after row, as bytes.
#[derive(Clone)]
pub struct HostTensor {
    pub ty: ElementType,
    pub rows: u64,
    pub columns: u64,
    pub bytes: Vec<u8>,
}

/// Where the rows of a tensor lie in its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lay {
    /// One after the other from the start.
    Packed,
    /// One after the other from element 1 on: no access is wider than an element.
    Shifted,
    /// One element between rows: H = 5376 gives the row stride 6·H + 1.
    OddStride,
    /// At least 16 bytes between rows that begin at multiples of 16 bytes.
    Apart,
    /// As `Apart` with 8 bytes.
    HalfApart,
    /// From element 3 on, 5 elements apart.
    ShiftedApart,
    /// One row, read again and again. Not to be written.
    Repeated,
    /// So far apart that element 2^32 lies before row 512. For two bytes an element and less; the
    /// memory between rows is never touched.
    Far,
}

/// Elements from row to row of [`Lay::Far`].
const FAR: u64 = (1 << 23) + 8;

impl Lay {
    /// For what is read.
    pub const READ: [Lay; 7] =
        [Lay::Packed, Lay::Shifted, Lay::OddStride, Lay::Apart, Lay::HalfApart, Lay::ShiftedApart, Lay::Repeated];

    /// For what is written.
    pub const WRITE: [Lay; 6] =
        [Lay::Packed, Lay::Shifted, Lay::OddStride, Lay::Apart, Lay::HalfApart, Lay::ShiftedApart];

    /// First element, and elements from row to row.
    fn offset_and_stride(self, ty: ElementType, columns: u64) -> (u64, u64) {
        let (wide, half) = (16 / ty.bytes(), 8 / ty.bytes());
        match self {
            Lay::Packed => (0, columns),
            Lay::Shifted => (1, columns),
            Lay::OddStride => (0, columns + 1),
            Lay::Apart => (2 * wide, columns.next_multiple_of(wide) + wide),
            Lay::HalfApart => (half, columns.next_multiple_of(half) + half),
            Lay::ShiftedApart => (3, columns + 5),
            Lay::Repeated => (wide, 0),
            Lay::Far => (0, FAR),
        }
    }
}

/// A tensor on a device, in its buffer.
pub struct Placed {
    buffer: AnyTensor,
    rows: u64,
    columns: u64,
    offset: u64,
    stride: u64,
    far: bool,
}

impl Placed {
    /// A tensor of poison.
    pub fn poison(stream: &Stream, ty: ElementType, rows: u64, columns: u64, lay: Lay) -> Result<Placed, Error> {
        let mut placed = Placed::uninit(stream, ty, rows, columns, lay)?;
        placed.fill(stream)?;
        Ok(placed)
    }

    fn uninit(stream: &Stream, ty: ElementType, rows: u64, columns: u64, lay: Lay) -> Result<Placed, Error> {
        let (offset, stride) = lay.offset_and_stride(ty, columns);
        let size = offset + (rows - 1) * stride + columns + TAIL / ty.bytes();
        let buffer = AnyTensor::uninit(stream, ty, 1, size)?;
        Ok(Placed { buffer, rows, columns, offset, stride, far: lay == Lay::Far })
    }

    /// A copy of a tensor of the host. Of a repeated row the first is taken.
    pub fn of(stream: &Stream, tensor: &HostTensor, lay: Lay) -> Result<Placed, Error> {
        let HostTensor { ty, rows, columns, ref bytes } = *tensor;
        let mut placed = Placed::uninit(stream, ty, rows, columns, lay)?;
        if placed.far {
            let packed = upload(stream, ty, bytes, rows, columns)?;
            placed.view_mut().copy_from(stream, packed.view())?;
            stream.synchronize()?;
            return Ok(placed);
        }
        let Placed { offset, stride, .. } = placed;
        let size = placed.buffer.columns();
        let mut whole = vec![POISON; (size * ty.bytes()) as usize];
        let taken = if stride == 0 { 1 } else { rows };
        let row_bytes = (columns * ty.bytes()) as usize;
        for (row, from) in (0..taken).zip(bytes.chunks_exact(row_bytes)) {
            let start = ((offset + row * stride) * ty.bytes()) as usize;
            whole[start..start + row_bytes].copy_from_slice(from);
        }
        placed.buffer = upload(stream, ty, &whole, 1, size)?;
        Ok(placed)
    }

    pub fn view(&self) -> AnyView<'_> {
        let view = self.buffer.view().strided(self.rows, self.columns, [self.stride, 1], self.offset);
        view.expect("the buffer holds it")
    }

    pub fn view_mut(&mut self) -> AnyViewMut<'_> {
        let view = self.buffer.view_mut().strided(self.rows, self.columns, [self.stride, 1], self.offset);
        view.expect("the buffer holds it")
    }

    /// Makes all of its buffer poison; where its rows are far apart, only them.
    pub fn fill(&mut self, stream: &Stream) -> Result<(), Error> {
        if self.far {
            return self.view_mut().fill(stream, POISON);
        }
        self.buffer.view_mut().fill(stream, POISON)
    }

    /// Its rows, and whether everything around them is still poison.
    pub fn read(&self, stream: &Stream) -> Result<(Vec<u8>, bool), Error> {
        if self.far {
            let row = |row| download(stream, self.view().rows(row..row + 1)?);
            let rows = (0..self.rows).map(row).collect::<Result<Vec<_>, _>>()?;
            return Ok((rows.concat(), true));
        }
        let mut whole = download(stream, self.buffer.view())?;
        let size = self.buffer.element_type().bytes();
        let row_bytes = (self.columns * size) as usize;
        let mut rows = Vec::with_capacity(self.rows as usize * row_bytes);
        for row in 0..self.rows {
            let start = ((self.offset + row * self.stride) * size) as usize;
            let row = &mut whole[start..start + row_bytes];
            rows.extend_from_slice(row);
            if self.stride != 0 {
                row.fill(POISON);
            }
        }
        let untouched = self.stride == 0 || whole.iter().all(|&byte| byte == POISON);
        Ok((rows, untouched))
    }
}

/// A contiguous tensor of these bytes.
pub fn upload(stream: &Stream, ty: ElementType, bytes: &[u8], rows: u64, columns: u64) -> Result<AnyTensor, Error> {
    macro_rules! of {
        ($element:ty) => {
            AnyTensor::from_slice(stream, &bytemuck::pod_collect_to_vec::<u8, $element>(bytes), rows, columns)
        };
    }
    match ty {
        ElementType::Float(DType::F32) => of!(f32),
        ElementType::Float(DType::F16) => of!(f16),
        ElementType::Float(DType::Bf16) => of!(bf16),
        ElementType::Int(IntType::U8) => of!(u8),
        ElementType::Int(IntType::I32) => of!(i32),
        ElementType::Int(IntType::I64) => of!(i64),
        ElementType::U32 => of!(u32),
    }
}

/// A view's bytes on the host, row after row.
pub fn download(stream: &Stream, view: AnyView<'_>) -> Result<Vec<u8>, Error> {
    macro_rules! of {
        ($element:ty) => {
            bytemuck::cast_slice(&view.to_vec::<$element>(stream)?).to_vec()
        };
    }
    Ok(match view.element_type() {
        ElementType::Float(DType::F32) => of!(f32),
        ElementType::Float(DType::F16) => of!(f16),
        ElementType::Float(DType::Bf16) => of!(bf16),
        ElementType::Int(IntType::U8) => of!(u8),
        ElementType::Int(IntType::I32) => of!(i32),
        ElementType::Int(IntType::I64) => of!(i64),
        ElementType::U32 => of!(u32),
    })
}
