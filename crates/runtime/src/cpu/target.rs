//! Outputs that many tasks write at once.
#![expect(unsafe_code, reason = "tasks share one output; each writes its own part")]

use std::marker::PhantomData;
use std::ops::Range;

use crate::tensor::{AnyViewMut, BytesMut, Layout};

/// An output on the CPU, shared by tasks that write disjoint parts of it.
pub(crate) struct Target<'a> {
    start: *mut u8,
    bytes: usize,
    layout: Layout,
    borrow: PhantomData<&'a mut [u8]>,
}

// SAFETY: the pointer is to memory that `'a` borrows mutably for this value
// alone; `part` leaves it to its caller that no two threads get the same bytes.
unsafe impl Sync for Target<'_> {}
// SAFETY: as above; nothing is bound to the thread that made it.
unsafe impl Send for Target<'_> {}

impl<'a> Target<'a> {
    /// `None` for a tensor that is not on the CPU.
    pub(crate) fn new(view: &'a mut AnyViewMut<'_>) -> Option<Target<'a>> {
        let layout = view.layout;
        match &mut view.bytes {
            BytesMut::Host(bytes) => {
                Some(Target { start: bytes.as_mut_ptr(), bytes: bytes.len(), layout, borrow: PhantomData })
            }
            BytesMut::Device(_) => None,
        }
    }

    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    /// The bytes of some columns of one row.
    ///
    /// # Safety
    /// While the slice lives, no other call may ask for any of these columns of
    /// this row, and no two rows of the layout may overlap.
    #[expect(clippy::mut_from_ref, reason = "the caller keeps the parts apart")]
    pub(crate) unsafe fn part(&self, row: u64, columns: &Range<u64>) -> &mut [u8] {
        let size = self.layout.ty.bytes();
        let start = self.layout.row_bytes(row).start + (columns.start * size) as usize;
        let length = ((columns.end - columns.start) * size) as usize;
        assert!(row < self.layout.rows && columns.end <= self.layout.columns && start + length <= self.bytes);
        // SAFETY: the range is within the borrowed memory, and the caller says that nobody else has it.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), length) }
    }
}
