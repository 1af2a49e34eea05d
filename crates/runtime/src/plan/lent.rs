//! Plans in memory that another framework owns.
#![expect(unsafe_code, reason = "an address means what its owner says")]

use super::sizes::{StateLayout, check_address};
use super::{PlanSizes, RowPlan, RowShape};
use crate::device::Device;
use crate::element::ElementType;
use crate::error::Error;
use crate::stream::Stream;
use crate::tensor::{AnyTensor, AnyView};

impl RowPlan {
    /// The plan whose state lies at `address` in the memory of `device`: nothing is copied, read
    /// or allocated. Dropped, it leaves the state alone.
    ///
    /// # Errors
    /// [`Error::Address`] for null and [`Error::Misaligned`] for an address that is no multiple of
    /// 16; [`Error::PlanSizes`] for sizes that no plan has, and what [`RowPlan::state_elements`] says.
    ///
    /// # Safety
    /// - [`RowPlan::build_at`] or [`RowPlan::repeat_at`] has made the state on this device, with these
    ///   sizes; it may have been copied since, all [`RowPlan::state_elements`] of it, and then the
    ///   copy is done, or in order with each stream that the plan is used on.
    /// - As long as the plan lives, and any work queued with it or any [`crate::Graph`] captured with
    ///   it can run, the memory is allocated and nothing writes to it.
    pub unsafe fn from_raw(device: &Device, address: u64, sizes: PlanSizes) -> Result<RowPlan, Error> {
        sizes.check()?;
        check_address(address)?;
        let layout = StateLayout::of(sizes.positions, sizes.rows, sizes.block);
        // SAFETY: the caller vouches for the memory, and a plan never writes its state.
        let state = unsafe { AnyTensor::lent(device, address, ElementType::U32, layout.elements, 1)? };
        Ok(RowPlan { state, layout, sizes })
    }

    /// As [`RowPlan::build`], with the state at `address` in the memory of the stream's device:
    /// [`RowPlan::state_elements`] of u32. Waits for the stream once.
    ///
    /// # Errors
    /// As [`RowPlan::build`], the content of the state being unspecified then; [`Error::Address`] and
    /// [`Error::Misaligned`] as [`RowPlan::from_raw`].
    ///
    /// # Safety
    /// - The memory is allocated on the stream's device (and, on the CPU, initialised), and nothing else reads or
    ///   writes it until this returns but for work that the stream comes after.
    /// - As long as the plan lives, and any work queued with it or any [`crate::Graph`] captured with
    ///   it can run, it stays allocated and nothing writes to it.
    pub unsafe fn build_at(
        stream: &Stream,
        shape: &RowShape,
        indices: &[AnyView<'_>],
        address: u64,
    ) -> Result<RowPlan, Error> {
        check_address(address)?;
        // SAFETY: the caller vouches for the memory.
        let state = |elements| unsafe { AnyTensor::lent(&stream.device(), address, ElementType::U32, elements, 1) };
        RowPlan::queue_into(stream, shape, indices, None, state)?.wait()
    }

    /// As [`RowPlan::repeat`], with the state at `address`.
    ///
    /// # Errors
    /// As [`RowPlan::repeat`]; [`Error::Address`] and [`Error::Misaligned`] as [`RowPlan::from_raw`].
    ///
    /// # Safety
    /// As [`RowPlan::build_at`]; and the memory is not this plan's own.
    pub unsafe fn repeat_at(&self, stream: &Stream, batch: u64, address: u64) -> Result<RowPlan, Error> {
        check_address(address)?;
        // SAFETY: the caller vouches for the memory.
        let state = |elements| unsafe { AnyTensor::lent(&stream.device(), address, ElementType::U32, elements, 1) };
        self.repeat_into(stream, batch, state)
    }
}
