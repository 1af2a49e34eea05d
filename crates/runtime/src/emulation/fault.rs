//! What a kernel can do wrong in emulation, in words.

use std::fmt;

/// A thread of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadId {
    /// Which block of the grid.
    pub block: u64,
    /// Which thread of the block.
    pub thread: u32,
}

/// What a kernel did that a GPU would not forgive. Lines count from 1 in the source's device text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An access whose address is no multiple of its size.
    Misaligned {
        /// Line of the access.
        line: u32,
        /// Its address.
        address: u64,
        /// Its size.
        bytes: u32,
    },
    /// A load that is not inside one allocation.
    LoadOutside {
        /// Line of the access.
        line: u32,
        /// Its address.
        address: u64,
        /// Its size.
        bytes: u32,
    },
    /// A store or an atomic that is not inside one allocation.
    StoreOutside {
        /// Line of the access.
        line: u32,
        /// Its address.
        address: u64,
        /// Its size.
        bytes: u32,
    },
    /// A barrier reached while another thread of the block waits at a different one.
    BarrierSites {
        /// Line of the barrier.
        line: u32,
        /// The thread that waits.
        other_thread: u32,
        /// Line of its barrier.
        other_line: u32,
    },
    /// A barrier that not every thread of the block can reach: one has ended.
    BarrierEnded {
        /// Line of the barrier.
        line: u32,
    },
    /// A write behind a shared array. The thread is the last of its block.
    SharedOverrun,
    /// A write past every check, found in the memory around an allocation afterwards.
    Overrun {
        /// Size of the allocation in bytes.
        bytes: u64,
        /// From its nearer end to the first changed byte, at least 1.
        distance: u64,
        /// Whether the byte lies before the allocation, not behind it.
        before: bool,
    },
    /// Threads that wait for each other without end.
    Stuck,
    /// More stack than the emulation gives a thread.
    StackOverrun,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Fault::Misaligned { line, address, bytes } => {
                write!(f, "line {line} accesses {bytes} bytes at {address:#x}, which is no multiple of {bytes}")
            }
            Fault::LoadOutside { line, address, bytes } => {
                write!(f, "line {line} reads {bytes} bytes at {address:#x}, outside of every allocation")
            }
            Fault::StoreOutside { line, address, bytes } => {
                write!(f, "line {line} writes {bytes} bytes at {address:#x}, outside of every allocation")
            }
            Fault::BarrierSites { line, other_thread, other_line } => write!(
                f,
                "the barrier of line {line} is reached while thread {other_thread} waits at that of line \
                 {other_line}; all threads of a block must reach the same barrier"
            ),
            Fault::BarrierEnded { line } => write!(
                f,
                "waits at the barrier of line {line}, but another thread of the block has ended; all threads \
                 of a block must reach the same barrier"
            ),
            Fault::SharedOverrun => f.write_str("its block wrote behind the end of a shared array"),
            Fault::Overrun { bytes, distance, before } => {
                let side = if before { "before" } else { "behind" };
                write!(f, "wrote outside of an allocation of {bytes} bytes, {distance} bytes {side} it")
            }
            Fault::Stuck => f.write_str("the threads that are left wait for each other without end"),
            Fault::StackOverrun => f.write_str("needs more stack than the emulation gives a thread (64 KiB)"),
        }
    }
}

impl fmt::Display for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {}, thread {}", self.block, self.thread)
    }
}
