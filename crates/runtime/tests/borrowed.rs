//! Memory and streams of another framework: on the CPU, in emulation, and with the driver's own calls on a GPU.
#![expect(unsafe_code, reason = "addresses mean what their owner says")]

// What it shares with the facade's tests names the facade.
extern crate rowloom_runtime as rowloom;

#[path = "../../../tests/cases/gpu.rs"]
mod gpu;

use std::sync::{Mutex, PoisonError};

use cudarc::driver::{result, sys};
use rowloom_runtime::{
    AnyTensor, AnyView, Call, Declaration, Device, ElementType, Error, RowPlan, Stream, Tensor, View, ViewMut,
    Workspace, run, run_deferred, workspace_bytes,
};

use gpu::gpu;

const GATHER: &str = "\
kernel chunks forward
float T
int I
rows R
input table: table<T, R, 2>
input row: index<I, R>
row r0: R = row
v0: rows<T> = gather table[0] at r0
v1: rows<T> = gather table[1] at r0
output out: rows<T> = [v0, v1]
";

const TABLE: [f32; 12] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0];
/// Chunk 0 of rows 2, 0, 1, 2 and chunk 1, side by side in one (4, 4) matrix.
const CHUNKS: [f32; 16] = [9.0, 10.0, 11.0, 12.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0];

/// Gathers from a framework's (3, 4) table by its (4, 1) index into two views of its (4, 4) matrix.
fn gather(stream: &Stream, table: u64, row: u64, matrix: u64) -> Result<(), Error> {
    gather_by(stream, None, table, row, matrix)
}

/// The same by a plan, or by the index itself.
fn gather_by(stream: &Stream, plan: Option<&RowPlan>, table: u64, row: u64, matrix: u64) -> Result<(), Error> {
    let device = stream.device();
    let kernel = Declaration::from_ir(GATHER).unwrap();
    // SAFETY: the caller's memory holds three matrices of these sizes, and waits for the stream
    // before it uses or frees them; the two views share no element.
    let (table, row, first, second) = unsafe {
        (
            View::<f32>::from_raw(&device, table, 3, 4, 4)?,
            View::<i32>::from_raw(&device, row, 4, 1, 1)?,
            ViewMut::<f32>::from_raw(&device, matrix, 4, 2, 4)?,
            ViewMut::<f32>::from_raw(&device, matrix + 8, 4, 2, 4)?,
        )
    };
    // Between its rows lies the other one.
    assert!(matches!(table.strided(1, 4, [4, 1], 0), Err(Error::BorrowedStrides)));
    let inputs = [vec![table.any()], vec![row.any()]];
    let mut outputs = [vec![first.any(), second.any()]];
    let plans = plan.map(|plan| [plan]);
    let plans = plans.as_ref().map(|plans| &plans[..]);
    let call = Call { inputs: &inputs, outputs: &mut outputs, plans, schedule: None, workspace: None };
    let mut workspace = Workspace::with_bytes(stream, workspace_bytes(stream, kernel.forward(), &call)?)?;
    run(stream, kernel.forward(), Call { workspace: Some(&mut workspace), ..call })
}

#[test]
fn tensors_are_lent_and_borrowed_again() {
    let emulated = Device::emulated(0).unwrap();
    for device in [Some(emulated), gpu()].into_iter().flatten() {
        let stream = device.stream().unwrap();
        let table = Tensor::from_slice(&stream, &TABLE, 3, 4).unwrap();
        let row = Tensor::from_slice(&stream, &[2i32, 0, 1, 2], 4, 1).unwrap();
        let mut matrix = Tensor::<f32>::zeros(&stream, 4, 4).unwrap();
        let address = matrix.view_mut().address();
        gather(&stream, table.view().address(), row.view().address(), address).unwrap();
        assert_eq!(matrix.to_vec(&stream).unwrap(), CHUNKS);

        // The same on a stream that is borrowed: that of the driver's own, or any in emulation.
        matrix.view_mut().any().fill(&stream, 0).unwrap();
        stream.synchronize().unwrap();
        // SAFETY: the legacy default stream lives as long as the device.
        let legacy = unsafe { Stream::from_raw(&device, 0) }.unwrap();
        gather(&legacy, table.view().address(), row.view().address(), address).unwrap();
        legacy.synchronize().unwrap();
        assert_eq!(matrix.to_vec(&stream).unwrap(), CHUNKS);
        // SAFETY: as above.
        let again = unsafe { Stream::from_raw(&device, 0) }.unwrap();
        let call = |workspace: &mut Workspace| {
            let kernel = Declaration::from_ir(GATHER).unwrap();
            let inputs = [vec![table.view().any()], vec![row.view().any()]];
            let mut out = [(); 2].map(|()| Tensor::<f32>::zeros(&again, 4, 2).unwrap());
            let mut outputs = [out.iter_mut().map(|out| out.view_mut().any()).collect()];
            let workspace = Some(workspace);
            run(
                &again,
                kernel.forward(),
                Call { inputs: &inputs, outputs: &mut outputs, plans: None, schedule: None, workspace },
            )
        };
        call(&mut Workspace::with_bytes(&legacy, 256).unwrap()).expect("it is the same stream");
        let error = call(&mut Workspace::with_bytes(&device.stream().unwrap(), 256).unwrap()).unwrap_err();
        assert!(matches!(error, Error::Workspace), "{error}");
    }
}

#[test]
fn addresses_of_this_process_on_the_cpu() {
    let stream = Device::cpu().stream().unwrap();
    let (numbers, index) = (TABLE, [2i32, 0, 1, 2]);
    let (mut first, mut second) = ([0.0f32; 8], [0.0f32; 8]);
    let kernel = Declaration::from_ir(GATHER).unwrap();
    let device = Device::cpu();
    // SAFETY: each array is borrowed by one view only, and outlives it.
    let (table, row, first_view, second_view) = unsafe {
        (
            View::<f32>::from_raw(&device, numbers.as_ptr() as u64, 3, 4, 4).unwrap(),
            View::<i32>::from_raw(&device, index.as_ptr() as u64, 4, 1, 1).unwrap(),
            ViewMut::<f32>::from_raw(&device, first.as_mut_ptr() as u64, 4, 2, 2).unwrap(),
            ViewMut::<f32>::from_raw(&device, second.as_mut_ptr() as u64, 4, 2, 2).unwrap(),
        )
    };
    let inputs = [vec![table.any()], vec![row.any()]];
    let mut outputs = [vec![first_view.any(), second_view.any()]];
    let call = Call { inputs: &inputs, outputs: &mut outputs, plans: None, schedule: None, workspace: None };
    run(&stream, kernel.forward(), call).unwrap();
    let side_by_side: Vec<f32> =
        first.chunks(2).zip(second.chunks(2)).flat_map(|(left, right)| [left, right].concat()).collect();
    assert_eq!(side_by_side, CHUNKS);
    // SAFETY: refused before anything is done with it.
    let error = unsafe { Stream::from_raw(&device, 0) }.unwrap_err();
    assert!(matches!(error, Error::NoRawStream), "{error}");
}

#[test]
fn addresses_that_no_tensor_has_are_refused() {
    let device = Device::cpu();
    let ty = ElementType::U32;
    for address in [0, 2, 0x1001] {
        // SAFETY: refused before anything is read.
        let error = unsafe { AnyView::from_raw(&device, address, ty, 1, 1, 1) }.unwrap_err();
        assert!(matches!(error, Error::Address { .. }), "{error}");
    }
    for (rows, columns, stride) in [(1 << 62, 1, 1), (2, 1, 1 << 62), (1 << 40, 1 << 40, 1)] {
        // SAFETY: refused before anything is read.
        let error = unsafe { AnyView::from_raw(&device, 0x1000, ty, rows, columns, stride) }.unwrap_err();
        assert!(matches!(error, Error::Range { .. }), "{error}");
    }
}

/// One tensor as two that are written apart, on each device.
#[test]
fn rows_are_split() {
    for device in [Some(Device::cpu()), Some(Device::emulated(0).unwrap()), gpu()].into_iter().flatten() {
        let stream = device.stream().unwrap();
        let mut whole = Tensor::from_slice(&stream, &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], 3, 2).unwrap();
        for (at, expected) in [
            (0, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
            (1, [1.0, 2.0, 0.0, 0.0, 0.0, 0.0]),
            (3, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        ] {
            let mut numbers = Tensor::from_slice(&stream, &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], 3, 2).unwrap();
            let (first, second) = numbers.view_mut().split_rows(at).unwrap();
            assert_eq!((first.as_view().row_count(), second.as_view().row_count()), (at, 3 - at));
            second.any().fill(&stream, 0).unwrap();
            assert_eq!(numbers.to_vec(&stream).unwrap(), expected);
        }
        let (first, _) = whole.view_mut().split_rows(2).unwrap();
        assert!(first.any().strided(3, 2, [2, 1], 0).is_err(), "each half is all that it reaches");
        let (first, second) = whole.view_mut().split_rows(2).unwrap();
        let (mut first, second) = (first.any(), second.any());
        first.copy_from(&stream, second.as_view().expanded(2).unwrap()).unwrap();
        assert_eq!(whole.to_vec(&stream).unwrap(), [5.0, 6.0, 5.0, 6.0, 5.0, 6.0]);
        assert!(whole.view_mut().split_rows(4).is_err());
    }
}

/// While one thread captures in the global mode, the driver takes what others do by themselves for a
/// part of it: the tests that call the driver take turns.
static DRIVER: Mutex<()> = Mutex::new(());

/// Memory, a stream and a context of the driver itself, as a framework has them.
#[test]
fn a_framework_on_the_gpu_keeps_its_memory_stream_and_context() {
    let Some(device) = gpu() else { return };
    let _turn = DRIVER.lock().unwrap_or_else(PoisonError::into_inner);
    let upload = |bytes: &[u8]| {
        // SAFETY: the context is current; the memory has the bytes' size.
        unsafe {
            let address = result::malloc_sync(bytes.len()).unwrap();
            result::memcpy_htod_sync(address, bytes).unwrap();
            address
        }
    };
    // SAFETY: plain calls of the driver in the primary context, which the device keeps, and in
    // another one that is destroyed at the end.
    unsafe {
        let gpu = result::device::get(0).unwrap();
        let primary = result::primary_ctx::retain(gpu).unwrap();
        result::ctx::set_current(primary).unwrap();
        let raw = result::stream::create(result::stream::StreamKind::NonBlocking).unwrap();
        let table = upload(bytemuck::cast_slice(&TABLE));
        let row = upload(bytemuck::cast_slice(&[2i32, 0, 1, 2]));
        let matrix = upload(&[0; 64]);

        let mut other = std::mem::MaybeUninit::uninit();
        sys::cuCtxCreate_v2(other.as_mut_ptr(), 0, gpu).result().unwrap();
        let other = other.assume_init();
        let is_current =
            || assert_eq!(result::ctx::get_current().unwrap(), Some(other), "what the caller made current");

        {
            let stream = Stream::from_raw(&device, raw as u64).unwrap();
            is_current();
            gather(&stream, table, row, matrix).unwrap();
            is_current();
            let owned = AnyTensor::from_slice(&stream, &TABLE, 3, 4).unwrap();
            assert_eq!(owned.to_vec::<f32>(&stream).unwrap(), TABLE);
            is_current();
            stream.synchronize().unwrap();
        }
        is_current();
        result::ctx::set_current(primary).unwrap();
        let mut found = [0_u8; 64];
        // Its stream is still open: nobody closed it.
        result::memcpy_dtoh_async(&mut found, matrix, raw).unwrap();
        result::stream::synchronize(raw).unwrap();
        assert_eq!(bytemuck::cast_slice::<u8, f32>(&found), CHUNKS);

        // A capture of the framework's own: a call that must wait is refused, and the capture goes on.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        let stream = Stream::from_raw(&device, raw as u64).unwrap();
        result::stream::begin_capture(raw, mode).unwrap();
        let error = gather(&stream, table, row, matrix).unwrap_err();
        assert!(matches!(error, Error::Captured { .. }), "{error}");
        let graph = result::stream::end_capture(raw).expect("nothing has spoilt it");
        result::graph::destroy(graph).unwrap();
        gather(&stream, table, row, matrix).unwrap();
        stream.synchronize().unwrap();
        drop(stream);

        result::stream::destroy(raw).unwrap();
        for address in [table, row, matrix] {
            result::free_sync(address).unwrap();
        }
        sys::cuCtxDestroy_v2(other).result().unwrap();
        result::primary_ctx::release(gpu).unwrap();
    }
}

/// The driver takes what may wait, from any thread and on any stream, for a part of a capture in
/// its global mode, unless it is told otherwise.
#[test]
fn a_framework_on_the_gpu_captures_while_others_work() {
    let Some(device) = gpu() else { return };
    let _turn = DRIVER.lock().unwrap_or_else(PoisonError::into_inner);
    let owned = device.stream().unwrap();
    let table = Tensor::from_slice(&owned, &TABLE, 3, 4).unwrap();
    let row = Tensor::from_slice(&owned, &[2i32, 0, 1, 2], 4, 1).unwrap();
    let plan = RowPlan::new(&owned, row.view().any(), 3).unwrap();
    let mut matrix = Tensor::<f32>::zeros(&owned, 4, 4).unwrap();
    let (from, by, to) = (table.view().address(), row.view().address(), matrix.view_mut().address());
    owned.synchronize().unwrap();
    // SAFETY: plain calls of the driver in the primary context, which the device keeps; what the graph
    // uses is dropped after it.
    unsafe {
        let gpu = result::device::get(0).unwrap();
        result::ctx::set_current(result::primary_ctx::retain(gpu).unwrap()).unwrap();
        let raw = result::stream::create(result::stream::StreamKind::NonBlocking).unwrap();
        let stream = Stream::from_raw(&device, raw as u64).unwrap();
        gather_by(&stream, Some(&plan), from, by, to).unwrap();
        stream.synchronize().unwrap();

        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
        result::stream::begin_capture(raw, mode).unwrap();
        gather_by(&stream, Some(&plan), from, by, to).unwrap();
        let work = || {
            // Streams, memory, code, checks that are waited for and asked for, and the end of it all.
            let other = device.stream().unwrap();
            let rows = AnyTensor::from_slice(&other, &[4i32, 1010], 2, 1).unwrap();
            RowPlan::new(&other, rows.view(), 1011).unwrap();
            let mut out = Tensor::<f32>::zeros(&other, 4, 4).unwrap();
            gather(&other, from, by, out.view_mut().address()).unwrap();
            assert_eq!(out.to_vec(&other).unwrap(), CHUNKS);
            let kernel = Declaration::from_ir(GATHER).unwrap();
            let inputs = [vec![table.view().any()], vec![row.view().any()]];
            let mut halves = [(); 2].map(|()| Tensor::<f32>::zeros(&other, 4, 2).unwrap());
            let mut outputs = [halves.iter_mut().map(|half| half.view_mut().any()).collect()];
            let call = Call { inputs: &inputs, outputs: &mut outputs, plans: None, schedule: None, workspace: None };
            drop(run_deferred(&other, kernel.forward(), call).unwrap());
            other.synchronize().unwrap();
            let start = other.record().unwrap();
            other.record().unwrap().elapsed_us(&start).unwrap();
        };
        work();
        std::thread::scope(|scope| scope.spawn(work).join().unwrap());
        let graph = result::stream::end_capture(raw).expect("nothing has spoilt it");
        let ready = result::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0)).unwrap();
        result::graph::destroy(graph).unwrap();

        matrix.view_mut().any().fill(&owned, 0).unwrap();
        owned.synchronize().unwrap();
        result::graph::launch(ready, raw).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(matrix.to_vec(&owned).unwrap(), CHUNKS);
        result::graph::exec_destroy(ready).unwrap();
        drop((stream, plan));
        result::stream::destroy(raw).unwrap();
        result::primary_ctx::release(gpu).unwrap();
    }
}
