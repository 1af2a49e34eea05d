//! Memory of a GPU that is kept for later allocations.
#![expect(unsafe_code, reason = "a C library")]

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{
    CUmemAllocationHandleType, CUmemAllocationType, CUmemLocation, CUmemLocationType, CUmemPool_attribute,
    CUmemPoolProps, CUmemoryPool, CUstream,
};

/// A pool that keeps what is freed: an allocation of a size seen before costs no call of the system.
pub(super) fn create(ordinal: u32) -> Result<CUmemoryPool, DriverError> {
    let properties = CUmemPoolProps {
        allocType: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        handleTypes: CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
        location: CUmemLocation { type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: ordinal as i32 },
        win32SecurityAttributes: std::ptr::null_mut(),
        maxSize: 0,
        reserved: [0; 56],
    };
    let mut keep = u64::MAX;
    // SAFETY: the properties are complete and the threshold is a u64, as the driver documents.
    unsafe {
        let pool = result::mem_pool::create(&properties)?;
        let threshold = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        result::mem_pool::set_attribute(pool, threshold, (&raw mut keep).cast())?;
        Ok(pool)
    }
}

/// Memory of the pool, or of the device where there is none. Its context is current.
pub(super) fn allocate(pool: Option<CUmemoryPool>, stream: u64, bytes: u64) -> Result<u64, DriverError> {
    let bytes = bytes as usize;
    // SAFETY: the stream and the pool are of the context that is current.
    unsafe {
        match pool {
            Some(pool) => result::mem_pool::alloc_async(pool, bytes, stream as CUstream),
            None => result::malloc_sync(bytes),
        }
    }
}

/// Gives what the pool keeps back to the driver, once the stream's work is done. Its context is current.
pub(super) fn trim(pool: Option<CUmemoryPool>, stream: u64) -> Result<(), DriverError> {
    let Some(pool) = pool else { return Ok(()) };
    // SAFETY: the stream and the pool are of the context that is current.
    unsafe {
        result::stream::synchronize(stream as CUstream)?;
        result::mem_pool::trim_to(pool, 0)
    }
}
