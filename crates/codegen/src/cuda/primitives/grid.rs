//! Blocks, threads and what they share.
//!
//! Host functions take the line of the call, so that a fault names it.

use super::Definition;

/// Before sm_90 launches follow each other, and there is nothing to wait for. The next launch begins
/// only when this one has waited: else three would overlap, and the third would keep in its caches
/// what the first has read and the second writes.
pub(super) static BEGIN: Definition = Definition {
    words: &["rl_begin"],
    device: "\
RL_INLINE void rl_begin() {
#if __CUDA_ARCH__ >= 900
    asm volatile(\"griddepcontrol.wait;\" : : : \"memory\");
    asm volatile(\"griddepcontrol.launch_dependents;\" : : : \"memory\");
#endif
}
",
    host: "RL_INLINE void rl_begin() {}\n",
};

pub(super) static SHARED: Definition = Definition {
    words: &["RL_SHARED"], 
    device: "#define RL_SHARED(type, name, count) __shared__ type name[count]\n",
    // The address of a variable that the declaration has for itself says which array is meant.
    host: "\
#define RL_SHARED(type, name, count) \\
    static const char name##_site = 0; \\
    type(&name)[count] = *static_cast<type(*)[count]>(rl_host::shared(&name##_site, sizeof(type) * (count), alignof(type)))
",
};

pub(super) static THREAD: Definition = Definition {
    words: &["rl_thread"],
    device: "RL_INLINE rl_u32 rl_thread() { return threadIdx.x; }\n",
    host: "RL_INLINE rl_u32 rl_thread() { return rl_host::thread(); }\n",
};

pub(super) static BLOCK: Definition = Definition {
    words: &["rl_block"],
    device: "RL_INLINE rl_u64 rl_block() { return blockIdx.x; }\n",
    host: "RL_INLINE rl_u64 rl_block() { return rl_host::block(); }\n",
};

pub(super) static BLOCKS: Definition = Definition {
    words: &["rl_blocks"],
    device: "RL_INLINE rl_u64 rl_blocks() { return gridDim.x; }\n",
    host: "RL_INLINE rl_u64 rl_blocks() { return rl_host::blocks(); }\n",
};

pub(super) static BARRIER: Definition = Definition {
    words: &["rl_barrier"],
    device: "RL_INLINE void rl_barrier() { __syncthreads(); }\n",
    host: "RL_INLINE void rl_barrier(int line = __builtin_LINE()) { rl_host::barrier(line); }\n",
};

pub(super) static FENCE: Definition = Definition {
    words: &["rl_fence"],
    device: "RL_INLINE void rl_fence() { __threadfence(); }\n",
    host: "RL_INLINE void rl_fence() { rl_host::pause(); }\n",
};

pub(super) static ATOMIC_MIN: Definition = Definition {
    words: &["rl_atomic_min"],
    device: "RL_INLINE void rl_atomic_min(rl_u64* address, rl_u64 value) { atomicMin(address, value); }\n",
    host: "\
RL_INLINE void rl_atomic_min(rl_u64* address, rl_u64 value, int line = __builtin_LINE()) {
    rl_host::pause();
    rl_host::check_atomic(address, sizeof(rl_u64), line);
    if (value < *address) *address = value;
}
",
};

pub(super) static ATOMIC_ADD: Definition = Definition {
    words: &["rl_atomic_add"],
    device: "RL_INLINE rl_u32 rl_atomic_add(rl_u32* address, rl_u32 value) { return atomicAdd(address, value); }\n",
    host: "\
RL_INLINE rl_u32 rl_atomic_add(rl_u32* address, rl_u32 value, int line = __builtin_LINE()) {
    rl_host::pause();
    rl_host::check_atomic(address, sizeof(rl_u32), line);
    rl_u32 old = *address;
    *address = old + value;
    return old;
}
",
};

pub(super) static TICKET: Definition = Definition {
    words: &["rl_ticket"],
    device: "RL_INLINE rl_u64 rl_ticket(rl_u64* address) { return atomicAdd(address, 1); }\n",
    host: "\
RL_INLINE rl_u64 rl_ticket(rl_u64* address, int line = __builtin_LINE()) {
    rl_host::pause();
    rl_host::check_atomic(address, sizeof(rl_u64), line);
    return (*address)++;
}
",
};

/// The pause keeps those who wait out of the way of those who work.
pub(super) static AWAIT: Definition = Definition {
    words: &["rl_await"],
    device: "\
RL_INLINE void rl_await(const rl_u64* flag) {
    for (;;) {
        rl_u64 seen;
        asm volatile(\"ld.acquire.gpu.global.u64 %0, [%1];\" : \"=l\"(seen) : \"l\"(flag) : \"memory\");
        if (seen != 0) return;
        __nanosleep(20);
    }
}
",
    host: "\
RL_INLINE void rl_await(const rl_u64* flag, int line = __builtin_LINE()) {
    do {
        rl_host::pause();
        rl_host::check_load(flag, sizeof(rl_u64), line);
    } while (*static_cast<const volatile rl_u64*>(flag) == 0);
}
",
};

pub(super) static ANNOUNCE: Definition = Definition {
    words: &["rl_announce"],
    device: "\
RL_INLINE void rl_announce(rl_u64* flag) {
    asm volatile(\"st.release.gpu.global.u64 [%0], %1;\" : : \"l\"(flag), \"l\"(1ull) : \"memory\");
}
",
    host: "\
RL_INLINE void rl_announce(rl_u64* flag, int line = __builtin_LINE()) {
    rl_host::pause();
    rl_host::check_atomic(flag, sizeof(rl_u64), line);
    *flag = 1;
}
",
};
