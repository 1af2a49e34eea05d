//! Hand-written sources, some of them wrong on purpose.

#![expect(unsafe_code, reason = "launches, and memory of a device")]

mod compiling;
mod conversions;
mod memory;
mod primitives;
mod threads;

use rowloom_codegen::cuda::{Count, Entry, Param, Source, Step};

use super::emulator::Emulator;
use super::heap::Heap;
use super::{Fault, ThreadId};
use crate::error::Error;

/// A source of one entry `kernel` with `params` parameters; the body is in the first line.
fn source(name: &str, threads: u32, params: usize, body: &str) -> Source {
    let entry = Entry {
        name: "kernel".to_owned(),
        threads,
        grid: Count::Fixed(1),
        early: false,
        resident: None,
        params: vec![Param::Positions; params],
    };
    Source {
        name: name.to_owned(),
        header: String::new(),
        body: body.to_owned(),
        steps: vec![Step::Launch(entry)],
        scratch: Vec::new(),
        error: None,
    }
}

/// What runs in one test, and its memory.
struct Bench {
    heap: Heap,
}

impl Bench {
    fn new() -> Bench {
        Bench { heap: Heap::default() }
    }

    fn tensor<T: bytemuck::Pod>(&self, values: &[T]) -> u64 {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        let address = self.heap.allocate(bytes.len() as u64).expect("memory");
        // SAFETY: fresh memory of this size, which no kernel is running on.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
        address
    }

    fn read<T: bytemuck::Pod>(&self, address: u64, count: usize) -> Vec<T> {
        let mut values = vec![T::zeroed(); count];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut values);
        assert!(self.heap.holds(address, bytes.len() as u64));
        // SAFETY: inside an allocation, which no kernel is running on.
        unsafe { std::ptr::copy_nonoverlapping(address as *const u8, bytes.as_mut_ptr(), bytes.len()) };
        values
    }

    fn run(&self, source: &Source, seed: u64, blocks: u64, arguments: &[u64]) -> Result<(), Error> {
        let emulator = Emulator::new(seed)?;
        let function = &emulator.compile(&[source])?[0][0];
        // SAFETY: the bodies here are written for these arguments.
        unsafe { emulator.launch(function, blocks, arguments, &self.heap.ranges()) }?;
        self.heap.check_guards("kernel")
    }

    fn fault(&self, source: &Source, blocks: u64, arguments: &[u64]) -> (u64, u32, Fault) {
        match self.run(source, 1, blocks, arguments) {
            Err(Error::Emulation { kernel, at: Some(ThreadId { block, thread }), fault }) => {
                assert_eq!(kernel, "kernel");
                (block, thread, fault)
            }
            other => panic!("expected a fault, got {other:?}"),
        }
    }
}

/// Line of the device text on which `word` stands.
fn line(source: &Source, word: &str) -> u32 {
    let text = source.text(rowloom_codegen::cuda::Target::Device);
    let above = text.split(word).next().expect("the word is there");
    1 + above.matches('\n').count() as u32
}
