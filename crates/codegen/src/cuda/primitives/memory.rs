//! Loads and stores of tensors, plans and scratch: 1 to 16 bytes at a time.
//!
//! Generic addresses of global memory are global addresses, so the device
//! texts hand them to PTX as they are.

use super::Definition;

/// On the host a copy needs no registers.
pub(super) static REGISTERS: Definition = Definition {
    words: &["rl_registers"],
    device: "\
template <int BYTES> struct rl_bits_of;
template <> struct rl_bits_of<1> { rl_u32 low; };
template <> struct rl_bits_of<2> { rl_u16 low; };
template <> struct rl_bits_of<4> { rl_u32 low; };
template <> struct rl_bits_of<8> { rl_u64 low; };
template <> struct rl_bits_of<16> { rl_u64 low, high; };
template <typename V> union rl_registers {
    V value;
    rl_bits_of<sizeof(V)> bits;
};
",
    host: "",
};

/// The texts of a load, by 16 and 8 bytes with a hint.
macro_rules! load {
    ($name:literal, $load:literal, $hint:literal) => {
        Definition {
            words: &[$name],
            device: concat!(
                "template <typename V> RL_INLINE V ",
                $name,
                "(const void* address) {
    rl_registers<V> at;
    if constexpr (sizeof(V) == 16) {
        ",
                $load,
                $hint,
                ".v2.u64 {%0, %1}, [%2];\" : \"=l\"(at.bits.low), \"=l\"(at.bits.high) : \"l\"(address));
    } else if constexpr (sizeof(V) == 8) {
        ",
                $load,
                $hint,
                ".u64 %0, [%1];\" : \"=l\"(at.bits.low) : \"l\"(address));
    } else if constexpr (sizeof(V) == 4) {
        ",
                $load,
                ".u32 %0, [%1];\" : \"=r\"(at.bits.low) : \"l\"(address));
    } else if constexpr (sizeof(V) == 2) {
        ",
                $load,
                ".u16 %0, [%1];\" : \"=h\"(at.bits.low) : \"l\"(address));
    } else {
        ",
                $load,
                ".u8 %0, [%1];\" : \"=r\"(at.bits.low) : \"l\"(address));
    }
    return at.value;
}
"
            ),
            host: concat!(
                "template <typename V> RL_INLINE V ",
                $name,
                "(const void* address, int line = __builtin_LINE()) {
    V value;
    rl_host::check_load(address, sizeof(V), line);
    __builtin_memcpy(&value, address, sizeof(V));
    return value;
}
"
            ),
        }
    };
}

/// Wide loads are streams, which leave the first-level cache to the rest. Not by the read-only path,
/// and in its place behind `rl_begin`: a launch that begins early is there while the one before it
/// still writes, and then nothing is read-only.
pub(super) static LOAD: Definition = load!("rl_load", "asm volatile(\"ld.global", ".L1::no_allocate");

/// By the read-only path, so that it may overtake stores.
pub(super) static LOAD_CONSTANT: Definition = load!("rl_load_constant", "asm(\"ld.global.nc", ".L1::no_allocate");

/// A table's rows are read by many positions: where outputs stream past the second-level cache,
/// a load that the first level serves costs nothing of the traffic that stores need.
pub(super) static LOAD_KEPT: Definition = load!("rl_load_kept", "asm(\"ld.global.nc", "");

/// Rows of a position are read once; where they make room first, sums that were just written
/// stay in the second-level cache until they are read.
pub(super) static LOAD_STREAMING: Definition = Definition {
    words: &["rl_load_streaming"],
    device: "\
template <typename V> RL_INLINE V rl_load_streaming(const void* address) {
    rl_registers<V> at;
    rl_u64 policy;
    asm(\"createpolicy.fractional.L2::evict_first.b64 %0, 1.0;\" : \"=l\"(policy));
    if constexpr (sizeof(V) == 16) {
        asm volatile(\"ld.global.L1::no_allocate.L2::cache_hint.v2.u64 {%0, %1}, [%2], %3;\" : \"=l\"(at.bits.low), \"=l\"(at.bits.high) : \"l\"(address), \"l\"(policy));
    } else if constexpr (sizeof(V) == 8) {
        asm volatile(\"ld.global.L1::no_allocate.L2::cache_hint.u64 %0, [%1], %2;\" : \"=l\"(at.bits.low) : \"l\"(address), \"l\"(policy));
    } else if constexpr (sizeof(V) == 4) {
        asm volatile(\"ld.global.L2::cache_hint.u32 %0, [%1], %2;\" : \"=r\"(at.bits.low) : \"l\"(address), \"l\"(policy));
    } else {
        asm volatile(\"ld.global.L2::cache_hint.u16 %0, [%1], %2;\" : \"=h\"(at.bits.low) : \"l\"(address), \"l\"(policy));
    }
    return at.value;
}
",
    host: "\
template <typename V> RL_INLINE V rl_load_streaming(const void* address, int line = __builtin_LINE()) {
    V value;
    rl_host::check_load(address, sizeof(V), line);
    __builtin_memcpy(&value, address, sizeof(V));
    return value;
}
",
};

pub(super) static LOAD_FRESH: Definition = Definition {
    words: &["rl_load_fresh"], 
    device: "\
template <typename T> RL_INLINE T rl_load_fresh(const T* address) {
    rl_registers<T> at;
    if constexpr (sizeof(T) == 16) {
        asm volatile(\"ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];\" : \"=l\"(at.bits.low), \"=l\"(at.bits.high) : \"l\"(address) : \"memory\");
    } else if constexpr (sizeof(T) == 8) {
        asm volatile(\"ld.relaxed.gpu.global.u64 %0, [%1];\" : \"=l\"(at.bits.low) : \"l\"(address) : \"memory\");
    } else if constexpr (sizeof(T) == 4) {
        asm volatile(\"ld.relaxed.gpu.global.u32 %0, [%1];\" : \"=r\"(at.bits.low) : \"l\"(address) : \"memory\");
    } else if constexpr (sizeof(T) == 2) {
        asm volatile(\"ld.relaxed.gpu.global.u16 %0, [%1];\" : \"=h\"(at.bits.low) : \"l\"(address) : \"memory\");
    } else {
        asm volatile(\"ld.relaxed.gpu.global.u8 %0, [%1];\" : \"=r\"(at.bits.low) : \"l\"(address) : \"memory\");
    }
    return at.value;
}
",
    host: "\
template <typename T> RL_INLINE T rl_load_fresh(const T* address, int line = __builtin_LINE()) {
    T value;
    rl_host::pause();
    rl_host::check_load(address, sizeof(T), line);
    __builtin_memcpy(&value, address, sizeof(T));
    return value;
}
",
};

/// The texts of a store, with a hint.
macro_rules! store {
    ($name:literal, $hint:literal) => {
        Definition {
            words: &[$name],
            device: concat!(
                "template <typename V> RL_INLINE void ",
                $name,
                "(void* address, V value) {
    rl_registers<V> at;
    at.value = value;
    if constexpr (sizeof(V) == 16) {
        asm volatile(\"st.global",
                $hint,
                ".v2.u64 [%0], {%1, %2};\" : : \"l\"(address), \"l\"(at.bits.low), \"l\"(at.bits.high) : \"memory\");
    } else if constexpr (sizeof(V) == 8) {
        asm volatile(\"st.global",
                $hint,
                ".u64 [%0], %1;\" : : \"l\"(address), \"l\"(at.bits.low) : \"memory\");
    } else if constexpr (sizeof(V) == 4) {
        asm volatile(\"st.global",
                $hint,
                ".u32 [%0], %1;\" : : \"l\"(address), \"r\"(at.bits.low) : \"memory\");
    } else if constexpr (sizeof(V) == 2) {
        asm volatile(\"st.global",
                $hint,
                ".u16 [%0], %1;\" : : \"l\"(address), \"h\"(at.bits.low) : \"memory\");
    } else {
        asm volatile(\"st.global",
                $hint,
                ".u8 [%0], %1;\" : : \"l\"(address), \"r\"(at.bits.low) : \"memory\");
    }
}
"
            ),
            host: concat!(
                "template <typename V> RL_INLINE void ",
                $name,
                "(void* address, V value, int line = __builtin_LINE()) {
    rl_host::check_store(address, sizeof(V), line);
    __builtin_memcpy(address, &value, sizeof(V));
}
"
            ),
        }
    };
}

pub(super) static STORE: Definition = store!("rl_store", "");

pub(super) static STORE_STREAMING: Definition = store!("rl_store_streaming", ".cs");
