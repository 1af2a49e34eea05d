//! Streams and memory that several threads use at once. A device that can hold a piece of
//! work back brings about each order that must not matter.
#![expect(unsafe_code, reason = "streams are what their owner says")]

use std::sync::mpsc;
use std::time::Duration;

use rowloom_runtime::probe::Probe;
use rowloom_runtime::{
    AnyTensor, AnyView, AnyViewMut, Call, Declaration, Device, Error, RowPlan, Stream, Tensor, Workspace, run,
    run_deferred,
};

/// Rows of a table, and the second of a pair of tensors beside them.
const GATHER: &str = "\
kernel gather forward
float T
int I
rows R
input pair: [rows<T>; 2]
input table: table<T, R, 1>
input row: index<I, R>
row r0: R = row
v0: rows<T> = gather table[0] at r0
v1: rows<T> = read pair[1]
output out: rows<T> = [v0, v1]
";

/// Time enough for a thread to do what it should not.
const A_WHILE: Duration = Duration::from_millis(50);

/// What [`GATHER`] reads and writes.
struct Gather {
    kernel: Declaration,
    table: Tensor<f32>,
    row: Tensor<i32>,
    out: [AnyTensor; 2],
}

impl Gather {
    fn new(stream: &Stream, row: &[i32; 2]) -> Gather {
        Gather {
            kernel: Declaration::from_ir(GATHER).unwrap(),
            table: two_by_two(stream),
            row: Tensor::from_slice(stream, row, 2, 1).unwrap(),
            out: [(); 2].map(|()| AnyTensor::from_slice(stream, &[9.0f32; 4], 2, 2).unwrap()),
        }
    }

    /// Calls with this plan and an empty workspace, which is enough for one.
    fn planned(&mut self, stream: &Stream, plan: &RowPlan) -> Result<(), Error> {
        let mut workspace = Workspace::new(stream);
        self.with(|kernel, inputs, outputs| {
            let workspace = Some(&mut workspace);
            let call = Call { inputs, outputs, plans: Some(&[plan]), schedule: None, workspace };
            run(stream, kernel.forward(), call)
        })
    }

    /// Calls without a plan, and waits only where `wait` says so.
    fn deferred(&mut self, stream: &Stream, wait: bool) -> Result<(), Error> {
        self.with(|kernel, inputs, outputs| {
            let call = Call { inputs, outputs, plans: None, schedule: None, workspace: None };
            let pending = run_deferred(stream, kernel.forward(), call)?;
            if wait { pending.wait() } else { Ok(()) }
        })
    }

    fn with(
        &mut self,
        call: impl for<'t> FnOnce(&Declaration, &[Vec<AnyView<'t>>], &mut [Vec<AnyViewMut<'t>>]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let table = self.table.view().any();
        let inputs = [vec![table; 2], vec![table], vec![self.row.view().any()]];
        call(&self.kernel, &inputs, &mut [self.out.iter_mut().map(AnyTensor::view_mut).collect()])
    }
}

fn two_by_two(stream: &Stream) -> Tensor<f32> {
    Tensor::from_slice(stream, &[1.0, 2.0, 3.0, 4.0], 2, 2).unwrap()
}

/// A read, a write and the end of a tensor wait for each thread that wrote a part of it, also for
/// one that had joined but not queued its work when another came.
#[test]
fn halves_written_by_two_threads_are_both_waited_for() {
    for end in [false, true] {
        let probe = Probe::new().unwrap();
        let [first, second] = std::array::from_fn(|_| probe.device().stream().unwrap());
        let mut tensor = two_by_two(&first);
        let (front, behind) = tensor.view_mut().split_rows(1).unwrap();
        let (mut front, mut behind) = (front.any(), behind.any());
        probe.hold_next();
        std::thread::scope(|scope| {
            let held = scope.spawn(|| front.fill(&first, 0).unwrap());
            probe.wait_until_held();
            behind.fill(&second, 0).unwrap();
            probe.let_go();
            held.join().unwrap();
        });
        let asked = if end {
            probe.during(|| drop(tensor))
        } else {
            let asked = probe.during(|| assert_eq!(tensor.to_vec(&second).unwrap(), [0.0; 4]));
            // By now all of it is queued and was waited for: the next write ends the matter.
            tensor.view_mut().any().fill(&second, 0).unwrap();
            assert_eq!(probe.during(|| drop(tensor.to_vec(&second).unwrap())).waits, 0);
            asked
        };
        // The memory is the first stream's.
        assert_eq!(asked.waits, 1, "end: {end}");
    }
}

/// The same for a thread that reads one half while another writes the other.
#[test]
fn a_half_that_is_read_is_waited_for() {
    let probe = Probe::new().unwrap();
    let [first, second, third] = std::array::from_fn(|_| probe.device().stream().unwrap());
    let mut tensor = two_by_two(&first);
    let mut copy = Tensor::<f32>::zeros(&third, 1, 2).unwrap();
    let (front, behind) = tensor.view_mut().split_rows(1).unwrap();
    let (front, mut behind) = (front.any(), behind.any());
    probe.hold_next();
    std::thread::scope(|scope| {
        let held = scope.spawn(|| copy.view_mut().any().copy_from(&third, front.as_view()).unwrap());
        probe.wait_until_held();
        behind.fill(&second, 0).unwrap();
        probe.let_go();
        held.join().unwrap();
    });
    // For the reader and the writer.
    assert_eq!(probe.during(|| tensor.view_mut().any().fill(&first, 0).unwrap()).waits, 2);
    assert_eq!(copy.to_vec(&third).unwrap(), [1.0, 2.0]);
}

#[test]
fn a_capture_begins_behind_what_other_threads_are_queueing() {
    let probe = Probe::new().unwrap();
    let stream = probe.device().stream().unwrap();
    let (mut tensor, zeros) = (two_by_two(&stream), Tensor::<f32>::zeros(&stream, 2, 2).unwrap());
    let other = stream.clone();
    probe.hold_next();
    std::thread::scope(|scope| {
        let (began, begun) = mpsc::channel();
        scope.spawn(|| tensor.view_mut().any().copy_from(&other, zeros.view().any()).unwrap());
        probe.wait_until_held();
        scope.spawn(|| {
            let done = stream.capture(move || {
                let _ = began.send(());
                std::thread::sleep(A_WHILE);
                Ok(())
            });
            drop(done.unwrap());
        });
        let early = begun.recv_timeout(A_WHILE);
        probe.let_go();
        assert!(early.is_err(), "the copy would be recorded");
    });
    assert_eq!(tensor.to_vec(&stream).unwrap(), [0.0; 4]);
}

/// What another thread calls on a captured stream is refused, neither recorded nor run.
#[test]
fn captures_are_of_one_thread() {
    let device = Device::emulated(0).unwrap();
    let stream = device.stream().unwrap();
    let [mut own, mut others] = std::array::from_fn(|_| Gather::new(&stream, &[1, 0]));
    let plan = RowPlan::new(&stream, own.row.view().any(), 2).unwrap();
    let mut filled = AnyTensor::from_slice(&stream, &[9.0f32; 4], 2, 2).unwrap();
    own.planned(&stream, &plan).unwrap();
    own.out[0].view_mut().fill(&stream, 0).unwrap();
    let graph = stream.capture(|| {
        own.planned(&stream, &plan)?;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let refused = |done: Result<(), Error>| {
                    let error = done.unwrap_err();
                    assert!(matches!(error, Error::Captured { .. }), "{error}");
                };
                refused(others.planned(&stream, &plan));
                refused(filled.view_mut().fill(&stream, 0));
                refused(filled.view_mut().copy_from(&stream, others.table.view().any()));
            });
        });
        Ok(())
    });
    graph.unwrap().replay(&stream).unwrap();
    assert_eq!(own.out[0].to_vec::<f32>(&stream).unwrap(), [3.0, 4.0, 1.0, 2.0]);
    for untouched in [&others.out[0], &filled] {
        assert_eq!(untouched.to_vec::<f32>(&stream).unwrap(), [9.0; 4]);
    }
}

/// A driver takes a graph from one thread at a time.
#[test]
fn replays_of_one_graph_come_one_after_the_other() {
    let probe = Probe::new().unwrap();
    let [stream, other] = std::array::from_fn(|_| probe.device().stream().unwrap());
    let mut tensor = two_by_two(&stream);
    let graph = stream.capture(|| tensor.view_mut().any().fill(&stream, 0)).unwrap();
    probe.hold_next();
    std::thread::scope(|scope| {
        scope.spawn(|| graph.replay(&stream).unwrap());
        probe.wait_until_held();
        let (replayed, second) = mpsc::channel();
        let (graph, other) = (&graph, &other);
        scope.spawn(move || {
            graph.replay(other).unwrap();
            replayed.send(()).unwrap();
        });
        let early = second.recv_timeout(A_WHILE);
        probe.let_go();
        assert!(early.is_err(), "two launches of one graph at once");
        second.recv().unwrap();
    });
}

/// Its words and events are given back where their copies are done, its events in any case.
#[test]
fn a_stream_that_is_dropped_keeps_no_event_of_a_check() {
    for late in [false, true] {
        let probe = Probe::new().unwrap();
        let keeper = probe.device().stream().unwrap();
        let mut gather = Gather::new(&keeper, &[1, 0]);
        let stream = probe.device().stream().unwrap();
        if late {
            probe.leave_events_open();
        }
        gather.deferred(&stream, false).unwrap();
        assert_eq!(probe.live_events(), 1);
        drop(stream);
        // What the call has used lets go of the stream.
        drop(gather);
        assert_eq!(probe.live_events(), 0, "late: {late}");
    }
}

/// The index behind an input of several tensors is the one that is read for its value.
#[test]
fn a_deferred_error_has_the_value_of_its_index() {
    for device in [Device::cpu(), Device::emulated(0).unwrap()] {
        let stream = device.stream().unwrap();
        let error = Gather::new(&stream, &[1, 7]).deferred(&stream, true).unwrap_err();
        assert_eq!(error.to_string(), "row[1] is 7, but it must be in 0..2");
    }
}

/// Whether somebody waits or not, a value that may stand for no row is part of what may be there.
#[test]
fn an_index_with_a_pad_is_refused_with_its_pad() {
    let padded = GATHER.replace("index<I, R>", "index<I, R, pad = -1>");
    for device in [Device::cpu(), Device::emulated(0).unwrap()] {
        let stream = device.stream().unwrap();
        let mut gather = Gather { kernel: Declaration::from_ir(&padded).unwrap(), ..Gather::new(&stream, &[-1, -2]) };
        let error = gather.deferred(&stream, true).unwrap_err();
        assert_eq!(error.to_string(), "row[1] is -2, but it must be in 0..2, or -1 for no row");
        gather.deferred(&stream, false).unwrap();
        let error = stream.synchronize().unwrap_err().to_string();
        assert!(
            error.ends_with(": row[1] is neither in 0..2 nor -1 for no row; what it wrote is unspecified"),
            "{error}"
        );
    }
}

/// However often it is borrowed: a graph keeps what was used through either, and an error that
/// nobody waited for is that of both.
#[test]
fn a_borrowed_stream_is_one_stream() {
    let device = Device::emulated(0).unwrap();
    // SAFETY: streams of an emulated device are mere numbers.
    let borrow = |raw| unsafe { Stream::from_raw(&device, raw) };
    let [first, second] = [77, 77].map(|raw| borrow(raw).unwrap());
    let mut to = two_by_two(&first);
    let graph = {
        let from = Tensor::<f32>::zeros(&second, 2, 2).unwrap();
        first.capture(|| to.view_mut().any().copy_from(&second, from.view().any())).unwrap()
    };
    graph.replay(&first).unwrap();
    assert_eq!(to.to_vec(&second).unwrap(), [0.0; 4]);

    Gather::new(&first, &[1, 7]).deferred(&first, false).unwrap();
    assert!(matches!(second.synchronize(), Err(Error::Deferred { position: 1, .. })));

    // The legacy stream has two numbers; 2 is another stream on each thread.
    let (legacy, same) = (borrow(0).unwrap(), borrow(1).unwrap());
    Gather::new(&legacy, &[1, 7]).deferred(&legacy, false).unwrap();
    assert!(matches!(same.synchronize(), Err(Error::Deferred { .. })));
    let error = borrow(2).unwrap_err();
    assert!(matches!(error, Error::PerThreadStream), "{error}");
}

#[test]
fn a_workspace_that_may_not_grow_keeps_what_it_has() {
    let stream = Device::emulated(0).unwrap().stream().unwrap();
    let mut workspace = Workspace::with_bytes(&stream, 512).unwrap();
    let error = stream.capture(|| workspace.reserve(1024)).map(drop).unwrap_err();
    assert!(matches!(error, Error::Captured { .. }), "{error}");
    assert_eq!(workspace.bytes(), 512);
}
