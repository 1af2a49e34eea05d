//! The fixed list of `rl_*` functions that generated bodies are written in.
//!
//! Each primitive is one row: the words that call for it, what it is built
//! on, its device text and its host text. Device texts need nothing but NVRTC
//! (no `#include`, no toolkit header); host texts need g++ and the functions
//! of `rl_host`, which the emulation defines above them. Where the arithmetic
//! is cheap as bit operations, both texts are the same.
//!
//! Host texts check what a GPU would not forgive: alignment and bounds of
//! every access made through them. Plain `*pointer` in a body escapes these
//! checks, so bodies reach tensors, plans and scratch through `rl_load`,
//! `rl_store` and their kin only.

mod grid;
mod language;
mod memory;
mod numbers;

use std::collections::HashSet;

use super::Target;

/// One primitive. The order is that of the text: what is needed stands before what needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Primitive {
    /// `rl_u8` … `rl_u64`, `rl_i32`, `rl_i64`: the integers of a fixed width.
    Integers,
    /// `rl_bf16 { rl_u16 bits; }`.
    Bf16,
    /// `rl_f16 { rl_u16 bits; }`.
    F16,
    /// `rl_vector<T, N> { T lane[N]; }`, aligned to its size, at most 16 bytes.
    Vector,
    /// `RL_ENTRY(threads) name(parameters) { … }`: an entry run by blocks of `threads`. A second
    /// argument is how many blocks must fit a multiprocessor: 1 leaves the compiler all registers.
    Entry,
    /// `RL_INLINE type name(parameters) { … }`: a function of the body.
    Inline,
    /// `rl_begin()`: first in an entry that may be launched early. Waits for the launches before,
    /// whose writes are then visible, and lets the next one begin.
    Begin,
    /// `RL_UNROLL for (…)`: a loop whose count the compiler knows.
    Unroll,
    /// `RL_SHARED(type, name, count);`: an array that the threads of a block share. Its content
    /// is arbitrary at first. A type with a comma needs a name of its own.
    Shared,
    /// `rl_u32 rl_thread()`: which thread of its block.
    Thread,
    /// `rl_u64 rl_block()`: which block of the grid.
    Block,
    /// `rl_u64 rl_blocks()`: how many blocks the grid has.
    Blocks,
    /// `rl_barrier()`: waits for all threads of the block, whose writes are then visible to it.
    Barrier,
    /// `rl_fence()`: what this thread wrote before is visible to all before what it writes after.
    Fence,
    /// `rl_atomic_min(rl_u64*, rl_u64)`.
    AtomicMin,
    /// `rl_u32 rl_atomic_add(rl_u32*, rl_u32)`: returns the old value.
    AtomicAdd,
    /// `rl_u64 rl_ticket(rl_u64*)`: the number there, and makes it the next one.
    Ticket,
    /// `rl_await(const rl_u64*)`: waits until it was announced; what was written before that is
    /// visible after. By one thread of a block, of another that is known to run.
    Await,
    /// `rl_announce(rl_u64*)`: what was written before is visible to whoever waits for it.
    Announce,
    /// `rl_bits_of<BYTES>`: registers that hold 1, 2, 4, 8 or 16 bytes.
    Registers,
    /// `V rl_load<V>(const void*)`: reads memory that nobody writes during the launch. The
    /// address is aligned to the size of `V`: 1, 2, 4, 8 or 16 bytes.
    Load,
    /// `V rl_load_constant<V>(const void*)`: as `rl_load`, by the read-only path, in an entry that does
    /// not begin early.
    LoadConstant,
    /// `V rl_load_streaming<V>(const void*)`: as `rl_load`, of what is not read again soon: it makes
    /// room in the second-level cache first.
    LoadStreaming,
    /// `V rl_load_kept<V>(const void*)`: as `rl_load`, of what other positions read too; by the read-only path, in an entry that does not begin early.
    LoadKept,
    /// `T rl_load_fresh<T>(const T*)`: reads what other blocks of the launch may have written.
    LoadFresh,
    /// `rl_store(void*, V)`: the address is aligned to the size of `V`.
    Store,
    /// `rl_store_streaming(void*, V)`: the same, of what is not read again soon.
    StoreStreaming,
    /// `rl_u32 rl_bits(float)`: the encoding.
    Bits,
    /// `float rl_float(rl_u32)`: the value of an encoding.
    Float,
    /// `float rl_f32_from_bf16(rl_bf16)`: exact.
    F32FromBf16,
    /// `float rl_f32_from_f16(rl_f16)`: exact.
    F32FromF16,
    /// `float rl_round_odd(double)`: if inexact, the neighbour whose last bit is 1. Rounding
    /// that to 16 bits gives what rounding once would.
    RoundOdd,
    /// `rl_f32_from_f32(float)`: itself; a NaN becomes 0x7FC00000.
    F32FromF32,
    /// `rl_f32_from_f64(double)`: to nearest even; a NaN becomes 0x7FC00000.
    F32FromF64,
    /// `rl_bf16_from_f32(float)`: to nearest even; a NaN becomes 0x7FC0.
    Bf16FromF32,
    /// `rl_bf16_from_f64(double)`: to nearest even, once; a NaN becomes 0x7FC0.
    Bf16FromF64,
    /// `rl_f16_from_f32(float)`: to nearest even; a NaN becomes 0x7E00.
    F16FromF32,
    /// `rl_f16_from_f64(double)`: to nearest even, once; a NaN becomes 0x7E00.
    F16FromF64,
}

/// One row of the list.
struct Definition {
    /// A body calls for the primitive when all of these occur in it as words.
    words: &'static [&'static str],
    /// For NVRTC.
    device: &'static str,
    /// For g++.
    host: &'static str,
}

impl Primitive {
    /// Every primitive, in the order of the text.
    pub const ALL: [Primitive; 38] = [
        Primitive::Integers,
        Primitive::Bf16,
        Primitive::F16,
        Primitive::Vector,
        Primitive::Entry,
        Primitive::Inline,
        Primitive::Begin,
        Primitive::Unroll,
        Primitive::Shared,
        Primitive::Thread,
        Primitive::Block,
        Primitive::Blocks,
        Primitive::Barrier,
        Primitive::Fence,
        Primitive::AtomicMin,
        Primitive::AtomicAdd,
        Primitive::Ticket,
        Primitive::Await,
        Primitive::Announce,
        Primitive::Registers,
        Primitive::Load,
        Primitive::LoadConstant,
        Primitive::LoadStreaming,
        Primitive::LoadKept,
        Primitive::LoadFresh,
        Primitive::Store,
        Primitive::StoreStreaming,
        Primitive::Bits,
        Primitive::Float,
        Primitive::F32FromBf16,
        Primitive::F32FromF16,
        Primitive::RoundOdd,
        Primitive::F32FromF32,
        Primitive::F32FromF64,
        Primitive::Bf16FromF32,
        Primitive::Bf16FromF64,
        Primitive::F16FromF32,
        Primitive::F16FromF64,
    ];

    fn definition(self) -> &'static Definition {
        match self {
            Primitive::Integers => &language::INTEGERS,
            Primitive::Bf16 => &language::BF16,
            Primitive::F16 => &language::F16,
            Primitive::Vector => &language::VECTOR,
            Primitive::Entry => &language::ENTRY,
            Primitive::Inline => &language::INLINE,
            Primitive::Begin => &grid::BEGIN,
            Primitive::Unroll => &language::UNROLL,
            Primitive::Shared => &grid::SHARED,
            Primitive::Thread => &grid::THREAD,
            Primitive::Block => &grid::BLOCK,
            Primitive::Blocks => &grid::BLOCKS,
            Primitive::Barrier => &grid::BARRIER,
            Primitive::Fence => &grid::FENCE,
            Primitive::AtomicMin => &grid::ATOMIC_MIN,
            Primitive::AtomicAdd => &grid::ATOMIC_ADD,
            Primitive::Ticket => &grid::TICKET,
            Primitive::Await => &grid::AWAIT,
            Primitive::Announce => &grid::ANNOUNCE,
            Primitive::Registers => &memory::REGISTERS,
            Primitive::Load => &memory::LOAD,
            Primitive::LoadConstant => &memory::LOAD_CONSTANT,
            Primitive::LoadStreaming => &memory::LOAD_STREAMING,
            Primitive::LoadKept => &memory::LOAD_KEPT,
            Primitive::LoadFresh => &memory::LOAD_FRESH,
            Primitive::Store => &memory::STORE,
            Primitive::StoreStreaming => &memory::STORE_STREAMING,
            Primitive::Bits => &numbers::BITS,
            Primitive::Float => &numbers::FLOAT,
            Primitive::F32FromBf16 => &numbers::F32_FROM_BF16,
            Primitive::F32FromF16 => &numbers::F32_FROM_F16,
            Primitive::RoundOdd => &numbers::ROUND_ODD,
            Primitive::F32FromF32 => &numbers::F32_FROM_F32,
            Primitive::F32FromF64 => &numbers::F32_FROM_F64,
            Primitive::Bf16FromF32 => &numbers::BF16_FROM_F32,
            Primitive::Bf16FromF64 => &numbers::BF16_FROM_F64,
            Primitive::F16FromF32 => &numbers::F16_FROM_F32,
            Primitive::F16FromF64 => &numbers::F16_FROM_F64,
        }
    }

    /// Its definition: whole lines; none where the target has no use for it.
    pub fn text(self, target: Target) -> &'static str {
        match target {
            Target::Device => self.definition().device,
            Target::Host => self.definition().host,
        }
    }

    /// What a body calls for, and what the texts of that call for in turn, in the order of the list.
    pub fn used_by(body: &str, target: Target) -> Vec<Primitive> {
        let mut named: HashSet<&str> = words(body).collect();
        // Backwards: whatever a primitive is built on stands before it.
        let mut used: Vec<Primitive> = Vec::new();
        for primitive in Primitive::ALL.into_iter().rev() {
            if primitive.definition().words.iter().all(|word| named.contains(word)) {
                named.extend(words(primitive.text(target)));
                used.push(primitive);
            }
        }
        used.reverse();
        used
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_in_the_order_of_the_text() {
        for (place, primitive) in Primitive::ALL.into_iter().enumerate() {
            assert_eq!(primitive as usize, place);
            for target in [Target::Device, Target::Host] {
                for used in Primitive::used_by(primitive.text(target), target) {
                    assert!(used <= primitive, "{primitive:?} is built on {used:?}, which comes later");
                }
            }
        }
    }

    #[test]
    fn texts_are_whole_lines_and_include_nothing() {
        for primitive in Primitive::ALL {
            for target in [Target::Device, Target::Host] {
                let text = primitive.text(target);
                assert!(text.is_empty() || text.ends_with('\n'), "{primitive:?}");
                assert!(!text.contains("#include"), "{primitive:?}");
            }
        }
    }

    #[test]
    fn only_what_a_body_uses_is_written() {
        let copy = "rl_store(out, rl_load<rl_vector<rl_bf16, 8>>(table)); // my_rl_barrier";
        assert_eq!(
            Primitive::used_by(copy, Target::Device),
            [
                Primitive::Integers,
                Primitive::Bf16,
                Primitive::Vector,
                Primitive::Inline,
                Primitive::Registers,
                Primitive::Load,
                Primitive::Store,
            ]
        );
        let round = "rl_f16 stored = rl_f16_from_f64(sum);";
        let device = Primitive::used_by(round, Target::Device);
        assert!(device.contains(&Primitive::F16FromF64) && device.contains(&Primitive::RoundOdd));
        assert!(!device.contains(&Primitive::Bf16FromF32));
        // The device has an instruction where the host works on bits.
        let narrow = "rl_f16_from_f32(sum)";
        assert!(!Primitive::used_by(narrow, Target::Device).contains(&Primitive::Bits));
        assert!(Primitive::used_by(narrow, Target::Host).contains(&Primitive::Bits));
    }
}
