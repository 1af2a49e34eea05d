//! Views of memory that another framework owns.
#![expect(unsafe_code, reason = "an address means what its owner says")]

use super::{AnyTensor, AnyView, AnyViewMut, Layout, View, ViewMut};
use super::{Bytes, BytesMut};
use crate::device::{Device, Place};
use crate::element::{Element, ElementType};
use crate::engine::Region;
use crate::error::Error;

impl<'a> AnyView<'a> {
    /// `rows` × `columns` elements of type `ty` at `address` in the memory of `device`, on
    /// the CPU in that of this process; `row_stride` elements from one row to the next
    /// (0 repeats one row), columns following one another. Nothing is copied,
    /// and nothing here ever waits for this memory.
    ///
    /// # Errors
    /// [`Error::Address`] when it is null or no multiple of the element's size;
    /// [`Error::Range`] beyond 2^63 bytes.
    ///
    /// # Safety
    /// For `'a`, and for as long as any work queued with the view or any [`crate::Graph`]
    /// captured with it can run:
    /// - all elements lie in memory that is allocated on `device` and initialised;
    /// - nothing writes to them, but for work that the caller has put in order with
    ///   each stream that the view is used on: by events, or by using the same stream;
    ///   on the CPU both go for what lies between its rows too.
    pub unsafe fn from_raw(
        device: &'a Device,
        address: u64,
        ty: ElementType,
        rows: u64,
        columns: u64,
        row_stride: u64,
    ) -> Result<AnyView<'a>, Error> {
        let (layout, bytes) = layout(address, ty, rows, columns, row_stride)?;
        let bytes = match &device.0 {
            // SAFETY: the caller vouches for the memory; the address is aligned and not null, and
            // `layout` has counted its bytes.
            Place::Cpu => Bytes::Host(unsafe { std::slice::from_raw_parts(address as *const u8, bytes as usize) }),
            Place::Accelerator(engine) => Bytes::Device(Region::borrowed(engine, address, bytes)),
        };
        Ok(AnyView { bytes, layout })
    }
}

impl<'a> AnyViewMut<'a> {
    /// The same as [`AnyView::from_raw`], to be written. Several views may look into one
    /// allocation as long as they share no element.
    ///
    /// # Errors
    /// As [`AnyView::from_raw`].
    ///
    /// # Safety
    /// For `'a`, and for as long as any work queued with the view or any [`crate::Graph`]
    /// captured with it can run:
    /// - all elements lie in memory that is allocated on `device` (and, on the CPU, initialised);
    /// - no other view has one of them, and nothing reads or writes them, but for work
    ///   that the caller has put in order with each stream that the view is used on;
    ///   on the CPU this goes for what lies between its rows too.
    pub unsafe fn from_raw(
        device: &'a Device,
        address: u64,
        ty: ElementType,
        rows: u64,
        columns: u64,
        row_stride: u64,
    ) -> Result<AnyViewMut<'a>, Error> {
        let (layout, bytes) = layout(address, ty, rows, columns, row_stride)?;
        let bytes = match &device.0 {
            // SAFETY: as above, and nobody else has what lies from the first element to the last.
            Place::Cpu => BytesMut::Host(unsafe { std::slice::from_raw_parts_mut(address as *mut u8, bytes as usize) }),
            Place::Accelerator(engine) => BytesMut::Device(Region::borrowed(engine, address, bytes)),
        };
        Ok(AnyViewMut { bytes, layout })
    }
}

impl<'a, E: Element> View<'a, E> {
    /// Memory of another framework, as [`AnyView::from_raw`].
    ///
    /// # Errors
    /// As [`AnyView::from_raw`].
    ///
    /// # Safety
    /// As [`AnyView::from_raw`].
    pub unsafe fn from_raw(
        device: &'a Device,
        address: u64,
        rows: u64,
        columns: u64,
        row_stride: u64,
    ) -> Result<View<'a, E>, Error> {
        // SAFETY: the caller's promise.
        View::new(unsafe { AnyView::from_raw(device, address, E::TYPE, rows, columns, row_stride)? })
    }
}

impl<'a, E: Element> ViewMut<'a, E> {
    /// Memory of another framework to be written, as [`AnyViewMut::from_raw`].
    ///
    /// # Errors
    /// As [`AnyView::from_raw`].
    ///
    /// # Safety
    /// As [`AnyViewMut::from_raw`].
    pub unsafe fn from_raw(
        device: &'a Device,
        address: u64,
        rows: u64,
        columns: u64,
        row_stride: u64,
    ) -> Result<ViewMut<'a, E>, Error> {
        // SAFETY: the caller's promise.
        Ok(ViewMut::of(unsafe { AnyViewMut::from_raw(device, address, E::TYPE, rows, columns, row_stride)? }))
    }
}

/// Memory of another framework that lies as a whole tensor of ours; its owner frees it.
pub(super) struct Lent {
    device: Device,
    address: u64,
}

impl AnyTensor {
    /// As [`AnyView::from_raw`], contiguous, and for as long as the tensor lives.
    ///
    /// # Errors
    /// As [`AnyView::from_raw`].
    ///
    /// # Safety
    /// As [`AnyView::from_raw`], and where it is written as [`AnyViewMut::from_raw`], for as long as
    /// the tensor lives in place of `'a`.
    pub(crate) unsafe fn lent(
        device: &Device,
        address: u64,
        ty: ElementType,
        rows: u64,
        columns: u64,
    ) -> Result<AnyTensor, Error> {
        let (layout, _) = layout(address, ty, rows, columns, columns)?;
        Ok(AnyTensor::of_lent(Lent { device: device.clone(), address }, layout))
    }
}

impl Lent {
    /// Its first `bytes` bytes, which the tensor has.
    pub(super) fn bytes(&self, bytes: u64) -> Bytes<'_> {
        match &self.device.0 {
            // SAFETY: whoever made the tensor vouches for its bytes as long as it lives, and has had its
            // address checked.
            Place::Cpu => Bytes::Host(unsafe { std::slice::from_raw_parts(self.address as *const u8, bytes as usize) }),
            Place::Accelerator(engine) => Bytes::Device(Region::borrowed(engine, self.address, bytes)),
        }
    }

    /// The same, to be written.
    pub(super) fn bytes_mut(&mut self, bytes: u64) -> BytesMut<'_> {
        match &self.device.0 {
            Place::Cpu => {
                // SAFETY: as above; the tensor is borrowed as a whole, and nobody else has its memory.
                BytesMut::Host(unsafe { std::slice::from_raw_parts_mut(self.address as *mut u8, bytes as usize) })
            }
            Place::Accelerator(engine) => BytesMut::Device(Region::borrowed(engine, self.address, bytes)),
        }
    }
}

/// The layout and the bytes from the first element to the last.
fn layout(address: u64, ty: ElementType, rows: u64, columns: u64, row_stride: u64) -> Result<(Layout, u64), Error> {
    if address == 0 || !address.is_multiple_of(ty.bytes()) {
        return Err(Error::Address { address, ty });
    }
    // Elements that an address space can hold.
    let size = (isize::MAX as u64 - address.min(isize::MAX as u64)) / ty.bytes();
    let layout = Layout::contiguous(ty, 0, 0).strided(rows, columns, [row_stride, 1], 0, size)?;
    Ok((layout, layout.span_bytes().end))
}
