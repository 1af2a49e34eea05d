//! What kind of mistake an error is, for whoever has classes of errors of their own.

use crate::error::Error;

/// Who can do something about an [`Error`], and where to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// A value in an index.
    Index,
    /// An element type.
    Type,
    /// Sizes, strides, plans, schedules, and what else the caller gives.
    Argument,
    /// Memory that is not there.
    Memory,
    /// Drivers, compilers, files, and what cannot be done now.
    Environment,
}

impl Error {
    /// Its kind. Every variant is named here, so that a new one cannot end in the wrong class in silence.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Index { .. } | Error::Deferred { .. } => ErrorKind::Index,
            Error::ElementType { .. } => ErrorKind::Type,
            Error::Size { .. }
            | Error::NoMultiple { .. }
            | Error::Zero { .. }
            | Error::TooManyPositions { .. }
            | Error::Spec(_)
            | Error::Undetermined { .. }
            | Error::UnknownCount { .. }
            | Error::Arguments { .. }
            | Error::AbsentInput { .. }
            | Error::NoGradient { .. }
            | Error::ColumnStride { .. }
            | Error::Overlap { .. }
            | Error::Range { .. }
            | Error::Length { .. }
            | Error::WrongDevice { .. }
            | Error::Plan { .. }
            | Error::PlanSizes { .. }
            | Error::PlanTerm { .. }
            | Error::TooManyBlocks { .. }
            | Error::RowNumber { .. }
            | Error::TooManyRows { .. }
            | Error::Workspace
            | Error::WorkspaceTooSmall { .. }
            | Error::NeedsPlan { .. }
            | Error::PerThreadStream
            | Error::BorrowedStrides
            | Error::Address { .. }
            | Error::Misaligned { .. }
            | Error::Schedule { .. }
            | Error::UnknownDevice(_)
            | Error::Parse(_)
            | Error::Verify { .. } => ErrorKind::Argument,
            Error::OutOfMemory { .. } | Error::TooLargeToTune { .. } => ErrorKind::Memory,
            Error::NoSchedules
            | Error::Captured { .. }
            | Error::NoGraphs
            | Error::NoRawStream
            | Error::OnlyGpu
            | Error::NoDriver { .. }
            | Error::NoDevice { .. }
            | Error::OldDriver { .. }
            | Error::Forked { .. }
            | Error::Driver { .. }
            | Error::Load { .. }
            | Error::NoNvrtc { .. }
            | Error::NoCode { .. }
            | Error::Pack { .. }
            | Error::PackWrite { .. }
            | Error::NoCache
            | Error::Records { .. }
            | Error::Environment(_)
            | Error::Nvrtc { .. }
            | Error::Compile { .. }
            | Error::NoCompiler { .. }
            | Error::Emulation { .. }
            | Error::Io { .. } => ErrorKind::Environment,
        }
    }
}
