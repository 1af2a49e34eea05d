//! Everything that can go wrong, in the words of whoever called.

use rowloom_codegen::ir::{Fault, ParseError};
use rowloom_codegen::spec::SpecError;

use crate::cache::Misspelt;
use crate::element::ElementType;
use crate::emulation::{Fault as EmulationFault, ThreadId};
use crate::nvrtc::Nvrtc;

/// Why a call, a plan, a tensor or a device was refused.
///
/// After an error the process, the device and every earlier result stay
/// usable. Outputs of the refused call are unspecified; inputs are untouched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An index outside its own bound.
    #[error("{argument}[{position}] is {value}, but it must be in 0..{bound}{}{}", pad.map(|pad| format!(", or {pad} for no row")).unwrap_or_default(), help.map(|help| format!("; {help}")).unwrap_or_default())]
    Index {
        /// The index.
        argument: String,
        /// Smallest bad position.
        position: u64,
        /// What stands there.
        value: i64,
        /// Exclusive bound.
        bound: u64,
        /// The value that marks positions without a row, where there is one.
        pad: Option<i64>,
        /// What to write instead, when one thing is likely.
        help: Option<&'static str>,
    },
    /// Something was to be tuned where nothing can be chosen.
    #[error("the CPU has no schedules; tune on a GPU such as cuda:0")]
    NoSchedules,
    /// The data that tuning takes does not fit.
    #[error("tuning at these sizes takes {} MiB on {device}, and {} MiB are free; choose fewer positions", needed.div_ceil(1 << 20), free >> 20)]
    TooLargeToTune {
        /// The device.
        device: String,
        /// Bytes that it takes.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// Another element type than the kernel asks for.
    #[error("{argument} holds {found}, but must hold {expected}")]
    ElementType {
        /// The tensor.
        argument: String,
        /// What it must hold.
        expected: String,
        /// What it holds.
        found: ElementType,
    },
    /// A size that differs from the one another argument gives.
    #[error("{argument} has {found} {axis}, but must have {expected}: {because}")]
    Size {
        /// The tensor.
        argument: String,
        /// `positions` of an index, else `rows`, `columns` or `tensors`.
        axis: &'static str,
        /// Its size.
        found: u64,
        /// The size it must have.
        expected: u64,
        /// Where that size comes from.
        because: String,
    },
    /// A size that is no multiple of what the declaration says.
    #[error("{argument} has {found} {axis}, which is no multiple of {of}: {because}")]
    NoMultiple {
        /// The tensor.
        argument: String,
        /// `rows` or `columns`.
        axis: &'static str,
        /// Its size.
        found: u64,
        /// What must divide it.
        of: u64,
        /// Why.
        because: String,
    },
    /// A size of zero.
    #[error("{argument} has 0 {axis}; it must have at least 1")]
    Zero {
        /// The tensor.
        argument: String,
        /// `positions` of an index, else `rows` or `columns`.
        axis: &'static str,
    },
    /// More positions than position numbers can say.
    #[error("{argument} has {positions} positions; the limit is {limit}")]
    TooManyPositions {
        /// The tensor.
        argument: String,
        /// Its positions.
        positions: u64,
        /// Most positions.
        limit: u64,
    },
    /// Sizes that do not fit the kernel.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A row count that no tensor determines and the call does not give.
    #[error("{kernel}: no tensor determines {count}; give its value")]
    Undetermined {
        /// Kernel.
        kernel: String,
        /// The row count.
        count: String,
    },
    /// A row count the kernel does not have.
    #[error("{kernel} has no row count {count}; it has {choices}")]
    UnknownCount {
        /// Kernel.
        kernel: String,
        /// The name given.
        count: String,
        /// Its row counts.
        choices: String,
    },
    /// An input that a backward reads and the call does not give.
    #[error("the backward of {kernel} reads {argument}, which is not there for these gradients: give it")]
    AbsentInput {
        /// Kernel.
        kernel: String,
        /// The input.
        argument: String,
    },
    /// A gradient that there is not.
    #[error("{kernel} has no gradient of {argument}, which is an index: ask for those of tables and rows")]
    NoGradient {
        /// Kernel.
        kernel: String,
        /// The input.
        argument: String,
    },
    /// Another number of arguments than the kernel has.
    #[error("{kernel} has {expected} {what}, not {found}")]
    Arguments {
        /// Kernel.
        kernel: String,
        /// `inputs`, `output tensors` or `plans`, and others of the kind.
        what: &'static str,
        /// Of the kernel.
        expected: usize,
        /// Of the call.
        found: usize,
    },
    /// Columns that do not follow one another in memory.
    #[error(
        "{argument} has a column stride of {found}; columns must follow one another (stride 1): make a contiguous copy"
    )]
    ColumnStride {
        /// The tensor.
        argument: String,
        /// Elements from one column to the next.
        found: u64,
    },
    /// Rows of an output that share memory.
    #[error("{argument} is written, but its rows overlap: {columns} columns with a row stride of {row_stride}")]
    Overlap {
        /// The output.
        argument: String,
        /// Columns of a row.
        columns: u64,
        /// Elements from one row to the next.
        row_stride: u64,
    },
    /// A view beyond its tensor.
    #[error("{what} {start}..{end} is beyond the {size} of the tensor")]
    Range {
        /// `rows`, `columns` or `elements`.
        what: &'static str,
        /// First wanted.
        start: u64,
        /// One past the last wanted.
        end: u64,
        /// How many there are.
        size: u64,
    },
    /// A slice of another length than the shape asks for.
    #[error("{found} elements were given for {rows} rows of {columns} columns")]
    Length {
        /// Elements given.
        found: usize,
        /// Rows of the shape.
        rows: u64,
        /// Columns of the shape.
        columns: u64,
    },
    /// A tensor or plan that lives elsewhere.
    #[error("{argument} is on {found}, but the call runs on {expected}")]
    WrongDevice {
        /// The tensor or plan.
        argument: String,
        /// Device of the stream.
        expected: String,
        /// Where it lives.
        found: String,
    },
    /// A plan made for something else.
    #[error("the plan of {rows_of} is for {found} {what}, but the call has {expected}")]
    Plan {
        /// The row expression, as it reads in the language.
        rows_of: String,
        /// `positions`, `rows`, `positions a block` or `positions without a row`.
        what: &'static str,
        /// Of the plan.
        found: u64,
        /// Of the call.
        expected: u64,
    },
    /// Sizes of a plan that contradict each other.
    #[error(
        "a plan of these sizes has {least} to {most} {what}, not {found}: take all sizes from the plan that its state \
         was made for"
    )]
    PlanSizes {
        /// `blocks`, `blocks of rows of several` or `positions without a row`.
        what: &'static str,
        /// The size given.
        found: u64,
        /// The least that the others allow.
        least: u64,
        /// The most that they allow.
        most: u64,
    },
    /// A term of a plan that means nothing.
    #[error("{argument} of the plan {reason}")]
    PlanTerm {
        /// Index.
        argument: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// More blocks of positions than block numbers can say.
    #[error(
        "the plan could have {blocks} blocks of positions; the limit is {limit}, so use fewer rows or larger blocks"
    )]
    TooManyBlocks {
        /// Most blocks that its sizes allow.
        blocks: u64,
        /// Limit.
        limit: u64,
    },
    /// Row numbers that could exceed the row count.
    #[error("the row number can reach {largest}, but there are {rows} rows")]
    RowNumber {
        /// Largest row number that the bounds allow.
        largest: u128,
        /// Row count.
        rows: u64,
    },
    /// More rows than row numbers can say.
    #[error("R, the row count of the plan, is {rows}; the limit is {limit}")]
    TooManyRows {
        /// R.
        rows: u64,
        /// Most rows.
        limit: u64,
    },
    /// A workspace of another stream.
    #[error("the workspace belongs to another stream")]
    Workspace,
    /// A workspace that a call would have to enlarge.
    #[error("{kernel} needs a workspace of {needed} bytes, but this one has {found}: reserve them before")]
    WorkspaceTooSmall {
        /// Kernel.
        kernel: String,
        /// Bytes of the call.
        needed: u64,
        /// Bytes of the workspace.
        found: u64,
    },
    /// A call without plans that would have to build them where it may not.
    #[error("{kernel} sums by row and {doing}, so it needs a plan of each of: {rows_of}; build them with `RowPlan`")]
    NeedsPlan {
        /// Kernel.
        kernel: String,
        /// Why it may not build them, as a phrase.
        doing: &'static str,
        /// The row expressions, as they read in the language.
        rows_of: String,
    },
    /// An index that a deferred call, for which nobody waited, found out of its bound.
    #[error(
        "an earlier deferred call of {kernel}: {argument}[{position}] is {}; what it wrote is unspecified",
        pad.map_or_else(|| format!("not in 0..{bound}"), |pad| format!("neither in 0..{bound} nor {pad} for no row"))
    )]
    Deferred {
        /// Kernel.
        kernel: String,
        /// The index.
        argument: String,
        /// Smallest bad position.
        position: u64,
        /// Exclusive bound.
        bound: u64,
        /// The value that marks positions without a row, where there is one.
        pad: Option<i64>,
    },
    /// Something that a stream cannot do while it is captured.
    #[error("{doing} is not possible while the stream is captured into a graph: do it before the capture")]
    Captured {
        /// What, as a phrase.
        doing: String,
    },
    /// A capture on the CPU.
    #[error("the CPU has no graphs: call again instead, or take a stream of Device::cuda")]
    NoGraphs,
    /// A stream of another framework on the CPU.
    #[error("the CPU has no streams of other frameworks: take Device::cpu().stream()")]
    NoRawStream,
    /// The number of no stream in particular.
    #[error("CU_STREAM_PER_THREAD is another stream on each thread: take a stream of the framework's own")]
    PerThreadStream,
    /// Another reading of memory of which only one view's elements are known.
    #[error("memory of another framework is read as it was described: give these strides to from_raw")]
    BorrowedStrides,
    /// An address that no tensor can have.
    #[error("{address:#x} is no address of {ty} elements: it must be a multiple of {} and not null", ty.bytes())]
    Address {
        /// The address.
        address: u64,
        /// What should be there.
        ty: ElementType,
    },
    /// A view that begins where accesses of several elements at once cannot.
    #[error(
        "{argument} begins at {address:#x}, but must begin at a multiple of {of} bytes: copy it into a tensor of its own"
    )]
    Misaligned {
        /// The tensor.
        argument: String,
        /// Address of its first element.
        address: u64,
        /// What the address must be a multiple of.
        of: u64,
    },
    /// A schedule that the kernel cannot run under.
    #[error("this schedule does not fit {kernel}: {reason}")]
    Schedule {
        /// Kernel.
        kernel: String,
        /// What is wrong.
        reason: String,
    },
    /// Something that only a GPU can do.
    #[error("this runs on a GPU only: take a stream of Device::cuda")]
    OnlyGpu,
    /// A word that names no device.
    #[error("`{0}` is no device; write cpu, cuda:0 or emulated")]
    UnknownDevice(String),
    /// No CUDA driver.
    #[error("no CUDA driver: looked for {} in the loader's path; a machine with an NVIDIA GPU and its driver is needed", searched.join(", "))]
    NoDriver {
        /// Library names looked for.
        searched: Vec<String>,
    },
    /// A GPU number beyond those present.
    #[error("there is no cuda:{ordinal}: the driver sees {found} GPUs{}", visible.as_ref().map(|list| format!(" (CUDA_VISIBLE_DEVICES={list})")).unwrap_or_default())]
    NoDevice {
        /// The number asked for.
        ordinal: u32,
        /// GPUs present.
        found: u32,
        /// `CUDA_VISIBLE_DEVICES`, when set.
        visible: Option<String>,
    },
    /// A driver older than the functions that are used.
    #[error("the CUDA driver supports CUDA {found}, but {needed} is needed; update the driver")]
    OldDriver {
        /// Version the driver supports.
        found: String,
        /// Oldest version served.
        needed: String,
    },
    /// A GPU in a child that was forked after the driver was started.
    #[error(
        "CUDA was started in process {started}, of which this one was forked, and cannot be used here: start workers \
         by spawn in place of fork, or use the GPU in them alone"
    )]
    Forked {
        /// The process.
        started: u32,
    },
    /// A call of the CUDA driver failed.
    #[error("{call} failed on {device}: {code}: {message}")]
    Driver {
        /// Function of the driver.
        call: &'static str,
        /// GPU, or the driver as a whole.
        device: String,
        /// Name of the code.
        code: String,
        /// The driver's sentence for it.
        message: String,
    },
    /// A module that this driver cannot load.
    #[error(
        "the driver (CUDA {driver}) cannot load code for {arch} made by NVRTC {nvrtc}: {message}; \
         update the driver or point ROWLOOM_NVRTC at an NVRTC no newer than the driver"
    )]
    Load {
        /// Version the driver supports.
        driver: String,
        /// Version of NVRTC.
        nvrtc: String,
        /// GPU architecture.
        arch: String,
        /// The driver's sentence.
        message: String,
    },
    /// Device memory ran out.
    #[error("{device} has no {bytes} bytes left")]
    OutOfMemory {
        /// Device.
        device: String,
        /// Bytes asked for.
        bytes: u64,
    },
    /// No NVRTC.
    #[error("no NVRTC: {}; looked {}", Nvrtc::HOW_TO_GET, places(searched))]
    NoNvrtc {
        /// Everything looked for, in order.
        searched: Vec<String>,
    },
    /// Code that is found nowhere and must not be compiled.
    #[error(
        "there is no code for {source_name} on {arch} (key {key}): {looked}; ROWLOOM_JIT=off forbids to compile it: \
         add it with `rowloom pack`, or unset ROWLOOM_JIT"
    )]
    NoCode {
        /// Name of the source: kernel, direction and mode.
        source_name: String,
        /// GPU architecture.
        arch: String,
        /// First digits of its key in a pack.
        key: String,
        /// Where it was looked for.
        looked: String,
    },
    /// A folder that is no pack.
    #[error("no pack in {}: {problem}; make one with `rowloom pack`", folder.display())]
    Pack {
        /// The folder.
        folder: std::path::PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A folder that cannot become a pack, or take more code.
    #[error("cannot make a pack in {}: {problem}", folder.display())]
    PackWrite {
        /// The folder.
        folder: std::path::PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// There is no folder for records of tuning.
    #[error(
        "cannot keep records of tuning: the cache is turned off, for ROWLOOM_CACHE_DIR is empty or there is no home"
    )]
    NoCache,
    /// Records of tuning that cannot be kept.
    #[error("cannot keep records of tuning in {}: {problem}", path.display())]
    Records {
        /// File or folder.
        path: std::path::PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// An environment variable whose value means nothing.
    #[error(transparent)]
    Environment(#[from] Misspelt),
    /// A call of NVRTC failed.
    #[error("{call} failed: {message}")]
    Nvrtc {
        /// Function of NVRTC.
        call: &'static str,
        /// NVRTC's sentence for the code.
        message: String,
    },
    /// Source that a compiler refused.
    #[error("{compiler} refused {source_name}:\n{log}")]
    Compile {
        /// Which compiler.
        compiler: String,
        /// Name of the source.
        source_name: String,
        /// Its log, line by line.
        log: String,
    },
    /// No C++ compiler.
    #[error(
        "the emulation needs a C++17 compiler, and `{command}` does not start ({error}); install g++ \
         (Debian: `apt-get install g++`) or name another in the environment variable CXX"
    )]
    NoCompiler {
        /// What was tried.
        command: String,
        /// The system's sentence.
        #[source]
        error: std::io::Error,
    },
    /// An emulated kernel did what a GPU would not forgive.
    #[error("{kernel}{}: {fault}", at.map(|at| format!(", {at}")).unwrap_or_default())]
    Emulation {
        /// Name of the entry.
        kernel: String,
        /// Which thread; `None` where only the launch is known.
        at: Option<ThreadId>,
        /// What it did.
        fault: EmulationFault,
    },
    /// IR text that is no kernel.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// IR that breaks rules.
    #[error("{kernel}: {}", faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Verify {
        /// Kernel.
        kernel: String,
        /// Each broken rule.
        faults: Vec<Fault>,
    },
    /// A file or process of the operating system.
    #[error("{doing}: {error}")]
    Io {
        /// What was being done, as a phrase.
        doing: String,
        /// The system's sentence.
        #[source]
        error: std::io::Error,
    },
}

/// Places looked at: a few as they are, of many their number, since nobody reads on after a page of paths.
fn places(searched: &[String]) -> String {
    match searched.len() {
        0..=3 => format!("for {}", searched.join(", ")),
        many => format!("in {many} places: `rowloom doctor` lists them"),
    }
}
