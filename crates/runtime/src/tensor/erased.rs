//! Owned tensors.

use std::fmt;
use std::sync::Arc;

use bytemuck::{Pod, Zeroable};

use super::raw::Lent;
use super::view::{AnyView, Bytes};
use super::view_mut::{AnyViewMut, BytesMut};
use super::{Layout, Tensor};
use crate::device::{Device, Place};
use crate::element::{Element, ElementType};
use crate::engine::DeviceMemory;
use crate::error::Error;
use crate::stream::{Lane, Stream};

/// An owned (rows, columns) tensor, contiguous, of an element type known at run time.
pub struct AnyTensor {
    memory: Memory,
    layout: Layout,
}

enum Memory {
    Host(Vec<Line>),
    Device(Arc<DeviceMemory>),
    Lent(Lent),
}

/// Rows of tensors on the CPU begin at a whole vector, and at no more: the system hands out
/// zero pages of itself at this alignment, but clears memory on one thread beyond it.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(16))]
struct Line([u8; 64]);

impl AnyTensor {
    /// All bytes zero.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or what the device reports.
    pub fn zeros(stream: &Stream, ty: ElementType, rows: u64, columns: u64) -> Result<AnyTensor, Error> {
        let tensor = AnyTensor::uninit(stream, ty, rows, columns)?;
        if let (Memory::Device(memory), Lane::Accelerator(queue)) = (&tensor.memory, &stream.0) {
            memory.region().fill(queue, 0, 0, memory.bytes())?;
        }
        Ok(tensor)
    }

    /// Content unspecified.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or what the device reports.
    pub fn uninit(stream: &Stream, ty: ElementType, rows: u64, columns: u64) -> Result<AnyTensor, Error> {
        let out_of_memory = |bytes| Error::OutOfMemory { device: stream.device().name(), bytes };
        let bytes = rows.checked_mul(columns).and_then(|elements| elements.checked_mul(ty.bytes()));
        let bytes = bytes.filter(|&bytes| bytes <= isize::MAX as u64 - 64).ok_or_else(|| out_of_memory(u64::MAX))?;
        let memory = match &stream.0 {
            Lane::Cpu(_) => {
                // Fresh zero pages cost nothing until they are written.
                let lines = bytes.div_ceil(64) as usize;
                Memory::Host(bytemuck::allocation::try_zeroed_vec(lines).map_err(|()| out_of_memory(bytes))?)
            }
            Lane::Accelerator(queue) => Memory::Device(DeviceMemory::allocate(queue, bytes)?),
        };
        Ok(AnyTensor { memory, layout: Layout::contiguous(ty, rows, columns) })
    }

    /// A copy of `elements`, row after row.
    ///
    /// # Errors
    /// [`Error::Length`] when they do not fill the shape; [`Error::OutOfMemory`].
    pub fn from_slice<E: Element>(
        stream: &Stream,
        elements: &[E],
        rows: u64,
        columns: u64,
    ) -> Result<AnyTensor, Error> {
        if rows.checked_mul(columns) != Some(elements.len() as u64) {
            return Err(Error::Length { found: elements.len(), rows, columns });
        }
        let mut tensor = AnyTensor::uninit(stream, E::TYPE, rows, columns)?;
        tensor.view_mut().upload(stream, bytemuck::cast_slice(elements))?;
        Ok(tensor)
    }

    /// Its elements, row after row. Waits for the stream.
    ///
    /// # Errors
    /// [`Error::ElementType`] when it holds another type; what the device reports.
    pub fn to_vec<E: Element>(&self, stream: &Stream) -> Result<Vec<E>, Error> {
        self.view().to_vec(stream)
    }

    /// Where it lives.
    pub fn device(&self) -> Device {
        self.view().device()
    }

    /// What it holds.
    pub fn element_type(&self) -> ElementType {
        self.layout.ty
    }

    /// Rows.
    pub fn rows(&self) -> u64 {
        self.layout.rows
    }

    /// Columns.
    pub fn columns(&self) -> u64 {
        self.layout.columns
    }

    /// Size of its elements in bytes.
    pub fn bytes(&self) -> u64 {
        self.layout.elements() * self.layout.ty.bytes()
    }

    /// Of memory that is another's.
    pub(super) fn of_lent(lent: Lent, layout: Layout) -> AnyTensor {
        AnyTensor { memory: Memory::Lent(lent), layout }
    }

    /// All of it.
    pub fn view(&self) -> AnyView<'_> {
        let bytes = match &self.memory {
            // The last line may reach beyond the last element.
            Memory::Host(lines) => Bytes::Host(&bytemuck::cast_slice(lines)[..self.bytes() as usize]),
            Memory::Device(memory) => Bytes::Device(memory.region()),
            Memory::Lent(lent) => lent.bytes(self.bytes()),
        };
        AnyView { bytes, layout: self.layout }
    }

    /// All of it, to be written.
    pub fn view_mut(&mut self) -> AnyViewMut<'_> {
        let bytes = self.bytes();
        let bytes = match &mut self.memory {
            Memory::Host(lines) => BytesMut::Host(&mut bytemuck::cast_slice_mut(lines)[..bytes as usize]),
            Memory::Device(memory) => BytesMut::Device(memory.region()),
            Memory::Lent(lent) => lent.bytes_mut(bytes),
        };
        AnyViewMut { bytes, layout: self.layout }
    }

    /// The same with its element type in front.
    ///
    /// # Errors
    /// [`Error::ElementType`] when it holds another type.
    pub fn typed<E: Element>(self) -> Result<Tensor<E>, Error> {
        Tensor::new(self)
    }
}

impl fmt::Debug for AnyTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Layout { ty, rows, columns, .. } = self.layout;
        write!(f, "({rows}, {columns}) {ty} on {}", self.device())
    }
}

impl Bytes<'_> {
    pub(super) fn device(&self) -> Device {
        match self {
            Bytes::Host(_) => Device::cpu(),
            Bytes::Device(region) => Device(Place::Accelerator(region.engine().clone())),
        }
    }
}
