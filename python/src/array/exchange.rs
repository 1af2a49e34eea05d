//! PyTorch's tensors by its own C function for libraries that run kernels over them (DLPack's exchange
//! table): one call in place of six attributes.
#![expect(unsafe_code, reason = "a table of C functions means what its owner says")]

use std::ffi::{c_int, c_void};

use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyType};
use rowloom::ElementType;
use rowloom::codegen::{DType, IntType};

use super::MOST_AXES;
use crate::place::Place;

/// Fills a description of a tensor, which is valid until Python runs again. -1 with an exception set for one
/// that DLPack cannot describe.
type Describe = unsafe extern "C" fn(*mut c_void, *mut DlTensor) -> c_int;

/// Fills in the current stream of a device, given by its type and number.
type CurrentStream = unsafe extern "C" fn(i32, i32, *mut *mut c_void) -> c_int;

/// `DLPackExchangeAPI` of DLPack 1, up to what is used.
#[repr(C)]
struct Table {
    major: u32,
    minor: u32,
    earlier: *const c_void,
    allocate: *const c_void,
    to_managed: *const c_void,
    from_managed: *const c_void,
    describe: Option<Describe>,
    current_stream: Option<CurrentStream>,
}

/// `DLTensor` of DLPack 1.
#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    axes: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

/// The functions of a class of tensors, and of no subclass.
#[derive(Clone, Copy)]
pub(crate) struct Exchange {
    describe: Describe,
    current_stream: Option<CurrentStream>,
}

/// A tensor as it describes itself; strides in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Described {
    /// Of the first element; 0 where there is none.
    pub(crate) address: u64,
    pub(crate) ty: ElementType,
    pub(crate) place: Place,
    pub(crate) axes: usize,
    /// The first of `axes`, as are strides.
    pub(crate) sizes: [i64; MOST_AXES],
    pub(crate) strides: [i64; MOST_AXES],
}

/// A GPU among DLPack's types of devices.
const CUDA: i32 = 2;

impl Exchange {
    /// Of `torch.Tensor`; `None` before PyTorch 2.10, or where it speaks another major version.
    pub(super) fn of(class: &Bound<'_, PyType>) -> Option<Exchange> {
        let capsule = class.getattr("__dlpack_c_exchange_api__").ok()?.cast_into::<PyCapsule>().ok()?;
        let table = capsule.pointer_checked(Some(c"dlpack_exchange_api")).ok()?.cast::<Table>();
        // SAFETY: a capsule of this name holds such a table, which lives as long as the process; every
        // version begins with its numbers, and those of major version 1 have these fields.
        let table = unsafe {
            if table.cast::<u32>().read() != 1 {
                return None;
            }
            table.as_ref()
        };
        Some(Exchange { describe: table.describe?, current_stream: table.current_stream })
    }

    /// What an object of that very class says; `None` for what its attributes can tell better: why it is refused.
    pub(crate) fn describe(self, object: &Bound<'_, PyAny>) -> Option<Described> {
        let mut tensor = DlTensor {
            data: std::ptr::null_mut(),
            device_type: 0,
            device_id: 0,
            axes: 0,
            code: 0,
            bits: 0,
            lanes: 0,
            shape: std::ptr::null(),
            strides: std::ptr::null(),
            byte_offset: 0,
        };
        // SAFETY: the object is of the class that the function was found at, and the interpreter is held.
        if unsafe { (self.describe)(object.as_ptr().cast(), &raw mut tensor) } != 0 {
            // The exception is dropped: the attributes say more.
            let _ = PyErr::take(object.py());
            return None;
        }
        let axes = usize::try_from(tensor.axes).ok().filter(|axes| *axes <= MOST_AXES)?;
        if axes > 0 && (tensor.shape.is_null() || tensor.strides.is_null()) {
            return None;
        }
        let place = match tensor.device_type {
            1 => Place::Cpu,
            CUDA => Place::Cuda(u32::try_from(tensor.device_id).ok()?),
            _ => return None,
        };
        let ty = element_type(tensor.code, tensor.bits, tensor.lanes)?;
        let (mut sizes, mut strides) = ([0; MOST_AXES], [0; MOST_AXES]);
        for at in 0..axes {
            // SAFETY: both lists have a number for each axis, and are the tensor's own, which has not changed since.
            (sizes[at], strides[at]) = unsafe { (tensor.shape.add(at).read(), tensor.strides.add(at).read()) };
        }
        let address = (tensor.data as u64).wrapping_add(tensor.byte_offset);
        Some(Described { address, ty, place, axes, sizes, strides })
    }

    /// PyTorch's current stream of a GPU, as a number.
    pub(crate) fn current_stream(self, py: Python<'_>, ordinal: u32) -> Option<u64> {
        let (current, ordinal) = (self.current_stream?, i32::try_from(ordinal).ok()?);
        let mut stream = std::ptr::null_mut();
        // SAFETY: the interpreter is held, as `py` shows.
        if unsafe { current(CUDA, ordinal, &raw mut stream) } != 0 {
            let _ = PyErr::take(py);
            return None;
        }
        Some(stream as u64)
    }
}

/// DLPack's codes: 0 integers, 1 unsigned ones, 2 floats, 4 bfloat.
fn element_type(code: u8, bits: u8, lanes: u16) -> Option<ElementType> {
    match (code, bits, lanes) {
        (2, 32, 1) => Some(ElementType::Float(DType::F32)),
        (2, 16, 1) => Some(ElementType::Float(DType::F16)),
        (4, 16, 1) => Some(ElementType::Float(DType::Bf16)),
        (1, 8, 1) => Some(ElementType::Int(IntType::U8)),
        (0, 32, 1) => Some(ElementType::Int(IntType::I32)),
        (0, 64, 1) => Some(ElementType::Int(IntType::I64)),
        _ => None,
    }
}
