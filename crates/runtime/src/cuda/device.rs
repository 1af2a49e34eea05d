//! A GPU as an accelerator.
#![expect(unsafe_code, reason = "addresses, streams and functions are plain numbers at the accelerator's interface")]

use std::ffi::{CString, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{
    self, CUcontext, CUdevice_attribute, CUevent_flags, CUevent_wait_flags, CUgraphInstantiate_flags,
    CUlaunchAttribute, CUlaunchAttributeID, CUlaunchAttributeValue, CUlaunchConfig, CUmemoryPool, CUresult, CUstream,
    CUstreamCaptureMode, CUstreamCaptureStatus, cuLaunchKernelEx,
};
use rowloom_codegen::{Arch, Source};
use smallvec::SmallVec;

use super::context::{Entered, Relaxed};
use super::driver::{self, failed};
use super::pool;
use crate::accelerator::Accelerator;
use crate::cache::CodeCache;
use crate::error::Error;
use crate::nvrtc::ImageFormat;

/// One GPU and its primary context, which other libraries of the process share.
pub(super) struct Cuda {
    ordinal: u32,
    context: CUcontext,
    product: String,
    arch: Arch,
    cache_bytes: u64,
    multiprocessors: u32,
    /// Whether a launch may begin before the one before it has ended, in a graph too. Not once PTX
    /// was loaded: it may be of an architecture whose code does not wait.
    launches_early: AtomicBool,
    /// Memory of our own, so that no setting of a shared pool is touched. `None`
    /// where the device has no pools, or `ROWLOOM_POOL=off` asks for an allocation of its own for
    /// each tensor, so that tools see what lies beyond it: allocations then wait for the device.
    pool: Option<CUmemoryPool>,
}

// SAFETY: a context and a pool may be used from any thread; every call makes the context current first.
unsafe impl Send for Cuda {}
// SAFETY: as above; the driver serialises what needs it.
unsafe impl Sync for Cuda {}

impl Cuda {
    /// Opens GPU `ordinal`.
    pub(super) fn open(ordinal: u32) -> Result<Cuda, Error> {
        driver::start()?;
        let fail = |call| move |error| failed(call, Some(ordinal), error);
        let found = driver::count()?;
        if ordinal >= found {
            let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
            return Err(Error::NoDevice { ordinal, found, visible });
        }
        let device = result::device::get(ordinal as i32).map_err(fail("cuDeviceGet"))?;
        let product = result::device::get_name(device).map_err(fail("cuDeviceGetName"))?;
        let attribute = |attribute| {
            // SAFETY: the device is one that the driver has just given.
            unsafe { result::device::get_attribute(device, attribute) }.map_err(fail("cuDeviceGetAttribute"))
        };
        let major = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let multiprocessors = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as u32;
        let pools = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)?;
        let cache_bytes = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?;
        // SAFETY: the device is one that the driver has given; the context is kept as long as the process.
        let context = unsafe { result::primary_ctx::retain(device) }.map_err(fail("cuDevicePrimaryCtxRetain"))?;
        let _entered = Entered::new(context).map_err(fail("cuCtxSetCurrent"))?;
        let _relaxed = Relaxed::new().map_err(fail("cuThreadExchangeStreamCaptureMode"))?;
        let unwanted = std::env::var_os("ROWLOOM_POOL").is_some_and(|value| value == "off");
        let pool =
            if pools == 0 || unwanted { None } else { Some(pool::create(ordinal).map_err(fail("cuMemPoolCreate"))?) };
        let (arch, cache_bytes) = (Arch((major * 10 + minor) as u32), u64::try_from(cache_bytes).unwrap_or(0));
        let launches_early = AtomicBool::new(arch >= Arch::SM_90 && driver::version()? >= driver::EARLY_LAUNCHES);
        Ok(Cuda { ordinal, context, product, arch, multiprocessors, launches_early, cache_bytes, pool })
    }

    /// Runs calls of the driver with this context current.
    fn with<T>(&self, call: &'static str, body: impl FnOnce() -> Result<T, DriverError>) -> Result<T, Error> {
        let entered = Entered::new(self.context).map_err(|error| self.failed("cuCtxSetCurrent", error))?;
        let done = body();
        drop(entered);
        done.map_err(|error| self.failed(call, error))
    }

    /// The same for what a framework's capture of another stream would not survive: the driver
    /// takes a call that may wait, from any thread, for a part of a capture in its global mode.
    fn apart<T>(&self, call: &'static str, body: impl FnOnce() -> Result<T, DriverError>) -> Result<T, Error> {
        self.with(call, || {
            let _relaxed = Relaxed::new()?;
            body()
        })
    }

    fn failed(&self, call: &'static str, error: DriverError) -> Error {
        failed(call, Some(self.ordinal), error)
    }
}

impl Accelerator for Cuda {
    fn name(&self) -> String {
        format!("cuda:{}", self.ordinal)
    }

    fn product(&self) -> String {
        self.product.clone()
    }

    fn arch(&self) -> Arch {
        self.arch
    }

    fn driver(&self) -> Option<String> {
        super::driver_name(super::driver_version().as_deref())
    }

    fn compiler(&self, source: &Source) -> Result<Option<(u32, u32)>, Error> {
        CodeCache::of_process().compiler_of(source, self.arch).map(Some)
    }

    fn cache_bytes(&self) -> u64 {
        self.cache_bytes
    }

    fn free_bytes(&self, stream: u64) -> Result<Option<u64>, Error> {
        self.apart("cuMemGetInfo", || {
            // What the pool keeps is free too.
            pool::trim(self.pool, stream)?;
            Ok(Some(result::mem_get_info()?.0 as u64))
        })
    }

    fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }

    fn open_stream(&self) -> Result<u64, Error> {
        let kind = result::stream::StreamKind::NonBlocking;
        self.apart("cuStreamCreate", || Ok(result::stream::create(kind)? as u64))
    }

    unsafe fn close_stream(&self, stream: u64) {
        // SAFETY: the caller owns the stream and gives it up. A failure leaves it to the process's end.
        let _ = self.apart("cuStreamDestroy", || unsafe { result::stream::destroy(stream as CUstream) });
    }

    fn allocate(&self, stream: u64, bytes: u64) -> Result<u64, Error> {
        let out_of_memory = DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        let entered = Entered::new(self.context).map_err(|error| self.failed("cuCtxSetCurrent", error))?;
        let relaxed = Relaxed::new().map_err(|error| self.failed("cuThreadExchangeStreamCaptureMode", error))?;
        let mut found = pool::allocate(self.pool, stream, bytes);
        if found.as_ref().err() == Some(&out_of_memory) {
            // What was freed in other sizes may be enough.
            pool::trim(self.pool, stream).map_err(|error| self.failed("cuMemPoolTrimTo", error))?;
            found = pool::allocate(self.pool, stream, bytes);
        }
        drop(relaxed);
        drop(entered);
        found.map_err(|error| match error == out_of_memory {
            true => Error::OutOfMemory { device: self.name(), bytes },
            false => self.failed("cuMemAllocFromPoolAsync", error),
        })
    }

    unsafe fn free(&self, stream: u64, address: u64) {
        // SAFETY: the caller owns the memory and gives it up. A failure leaves it to the process's end.
        let _ = self.apart("cuMemFreeAsync", || unsafe {
            match self.pool {
                Some(_) => result::free_async(address, stream as CUstream),
                None => result::free_sync(address),
            }
        });
    }

    unsafe fn upload(&self, stream: u64, address: u64, bytes: &[u8]) -> Result<(), Error> {
        // SAFETY: the caller vouches for the address and the stream. Pinned bytes would be read
        // after the call returns, so this waits.
        self.apart("cuMemcpyHtoDAsync", || unsafe {
            result::memcpy_htod_async(address, bytes, stream as CUstream)?;
            result::stream::synchronize(stream as CUstream)
        })
    }

    unsafe fn download(&self, stream: u64, address: u64, bytes: &mut [u8]) -> Result<(), Error> {
        // SAFETY: the caller vouches for the address and the stream; `bytes` is borrowed until the copy is done.
        self.apart("cuMemcpyDtoHAsync", || unsafe {
            result::memcpy_dtoh_async(bytes, address, stream as CUstream)?;
            result::stream::synchronize(stream as CUstream)
        })
    }

    fn allocate_words(&self, count: u64) -> Result<u64, Error> {
        // Page-locked, or the driver would wait for the copy.
        // SAFETY: the context is current; the words are written before they are read.
        self.apart("cuMemHostAlloc", || Ok(unsafe { result::malloc_host(count as usize * 8, 0)? } as u64))
    }

    unsafe fn download_later(&self, stream: u64, address: u64, word: u64) -> Result<(), Error> {
        // SAFETY: the caller vouches for the address and the stream, and leaves the word alone until
        // the copy is done.
        self.with("cuMemcpyDtoHAsync", || unsafe {
            sys::cuMemcpyDtoHAsync_v2(word as *mut c_void, address, 8, stream as CUstream).result()
        })
    }

    unsafe fn copy(&self, stream: u64, to: u64, from: u64, bytes: u64) -> Result<(), Error> {
        // SAFETY: the caller vouches for both ranges and the stream.
        self.with("cuMemcpyDtoDAsync", || unsafe {
            result::memcpy_dtod_async(to, from, bytes as usize, stream as CUstream)
        })
    }

    unsafe fn fill(&self, stream: u64, address: u64, byte: u8, bytes: u64) -> Result<(), Error> {
        // SAFETY: the caller vouches for the range and the stream.
        self.with("cuMemsetD8Async", || unsafe {
            result::memset_d8_async(address, byte, bytes as usize, stream as CUstream)
        })
    }

    fn load(&self, source: &Source) -> Result<Vec<u64>, Error> {
        let image = CodeCache::of_process().image(source, self.arch)?;
        if image.format == ImageFormat::Ptx {
            self.launches_early.store(false, Ordering::Relaxed);
        }
        let entered = Entered::new(self.context).map_err(|error| self.failed("cuCtxSetCurrent", error))?;
        let relaxed = Relaxed::new().map_err(|error| self.failed("cuThreadExchangeStreamCaptureMode", error))?;
        // SAFETY: the image is a whole cubin or a PTX text that ends in NUL; the context is current.
        let module = unsafe { result::module::load_data(image.bytes.as_ptr().cast()) }.map_err(|error| {
            let (major, minor) = image.nvrtc;
            let driver = driver::version().map_or_else(|_| "of unknown version".to_owned(), driver::text);
            let (code, sentence) = driver::describe(error);
            let (nvrtc, arch, message) =
                (format!("{major}.{minor}"), self.arch.to_string(), format!("{code}: {sentence}"));
            Error::Load { driver, nvrtc, arch, message }
        })?;
        let function = |entry: &rowloom_codegen::cuda::Entry| {
            let invalid = || self.failed("cuModuleGetFunction", DriverError(CUresult::CUDA_ERROR_INVALID_VALUE));
            // A generated name is an identifier.
            let name = CString::new(&*entry.name).map_err(|_| invalid())?;
            // SAFETY: the module has just been loaded and is never unloaded.
            let function = unsafe { result::module::get_function(module, name) };
            Ok(function.map_err(|error| self.failed("cuModuleGetFunction", error))? as u64)
        };
        let functions = source.entries().map(function).collect();
        drop(relaxed);
        drop(entered);
        functions
    }

    unsafe fn launch(
        &self,
        stream: u64,
        function: u64,
        (grid, threads): (u32, u32),
        early: bool,
        args: &[u64],
    ) -> Result<(), Error> {
        let mut params: SmallVec<[*mut c_void; 32]> =
            args.iter().map(|arg| std::ptr::from_ref(arg).cast_mut().cast()).collect();
        let mut early_launch = CUlaunchAttribute {
            id: CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; _],
            value: CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
        };
        let config = CUlaunchConfig {
            gridDimX: grid,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            hStream: stream as CUstream,
            attrs: &raw mut early_launch,
            numAttrs: u32::from(early && self.launches_early.load(Ordering::Relaxed)),
        };
        // SAFETY: the caller vouches for the stream, the function and what the arguments mean; the
        // driver copies them, each 64 bits, and the attribute before the call returns.
        self.with("cuLaunchKernelEx", || unsafe {
            let function = function as *mut _;
            cuLaunchKernelEx(&raw const config, function, params.as_mut_ptr(), std::ptr::null_mut()).result()
        })
    }

    fn synchronize(&self, stream: u64) -> Result<(), Error> {
        // SAFETY: streams reach this interface from their owner alone.
        self.apart("cuStreamSynchronize", || unsafe { result::stream::synchronize(stream as CUstream) })
    }

    fn wait(&self, stream: u64, other: u64) -> Result<(), Error> {
        // SAFETY: streams reach this interface from their owners alone. An event may be destroyed
        // before it has happened.
        self.with("cuStreamWaitEvent", || unsafe {
            let event = result::event::create(CUevent_flags::CU_EVENT_DISABLE_TIMING)?;
            let waited = result::event::record(event, other as CUstream).and_then(|()| {
                let flags = CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
                result::stream::wait_event(stream as CUstream, event, flags)
            });
            let destroyed = result::event::destroy(event);
            waited.and(destroyed)
        })
    }

    fn record(&self, stream: u64) -> Result<Option<u64>, Error> {
        // SAFETY: streams reach this interface from their owner alone.
        self.with("cuEventRecord", || unsafe {
            let event = result::event::create(CUevent_flags::CU_EVENT_DEFAULT)?;
            if let Err(error) = result::event::record(event, stream as CUstream) {
                result::event::destroy(event)?;
                return Err(error);
            }
            Ok(Some(event as u64))
        })
    }

    unsafe fn elapsed_us(&self, start: u64, end: u64) -> Result<f64, Error> {
        // SAFETY: the caller vouches for the events, which were made with timing.
        self.apart("cuEventElapsedTime", || unsafe {
            result::event::synchronize(start as *mut _)?;
            result::event::synchronize(end as *mut _)?;
            Ok(f64::from(result::event::elapsed(start as *mut _, end as *mut _)?) * 1e3)
        })
    }

    unsafe fn is_done(&self, event: u64) -> Result<bool, Error> {
        // SAFETY: the caller vouches for the event.
        self.apart("cuEventQuery", || match unsafe { result::event::query(event as *mut _) } {
            Err(DriverError(CUresult::CUDA_ERROR_NOT_READY)) => Ok(false),
            other => other.map(|()| true),
        })
    }

    unsafe fn finish(&self, event: u64) -> Result<(), Error> {
        // SAFETY: the caller vouches for the event.
        self.apart("cuEventSynchronize", || unsafe { result::event::synchronize(event as *mut _) })
    }

    unsafe fn release_event(&self, event: u64) {
        // SAFETY: the caller owns the event and gives it up. A failure leaves it to the process's end.
        let _ = self.apart("cuEventDestroy", || unsafe { result::event::destroy(event as *mut _) });
    }

    fn begin_capture(&self, stream: u64) -> Result<(), Error> {
        // What must not happen on the stream is refused before the driver sees it; what the caller does
        // meanwhile on other streams must not spoil the capture.
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: streams reach this interface from their owner alone.
        self.with("cuStreamBeginCapture", || unsafe { result::stream::begin_capture(stream as CUstream, mode) })
    }

    fn end_capture(&self, stream: u64) -> Result<u64, Error> {
        // SAFETY: streams reach this interface from their owner alone; the graph is ours, and what
        // was made of it does not need it.
        self.apart("cuStreamEndCapture", || unsafe {
            let graph = result::stream::end_capture(stream as CUstream)?;
            let ready = result::graph::instantiate(graph, CUgraphInstantiate_flags(0));
            let destroyed = result::graph::destroy(graph);
            ready.and_then(|ready| destroyed.map(|()| ready as u64))
        })
    }

    fn is_captured(&self, stream: u64) -> Result<bool, Error> {
        self.with("cuStreamIsCapturing", || {
            // SAFETY: streams reach this interface from their owner alone.
            match unsafe { result::stream::is_capturing(stream as CUstream) } {
                // The legacy stream's answer while another one is captured: then nothing may be done to it.
                Err(DriverError(CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)) => Ok(true),
                other => other.map(|status| status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE),
            }
        })
    }

    unsafe fn launch_graph(&self, stream: u64, graph: u64) -> Result<(), Error> {
        // SAFETY: the caller vouches for the graph, its memory and the stream.
        self.apart("cuGraphLaunch", || unsafe { result::graph::launch(graph as *mut _, stream as CUstream) })
    }

    unsafe fn release_graph(&self, graph: u64) {
        // SAFETY: the caller owns the graph and gives it up. A failure leaves it to the process's end.
        let _ = self.apart("cuGraphExecDestroy", || unsafe { result::graph::exec_destroy(graph as *mut _) });
    }
}
