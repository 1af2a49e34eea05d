template <typename T> RL_INLINE void copy_two(T* from, T* to) {
    T first = rl_load<T>(from);
    T second = rl_load_fresh(from + 1);
    T third = rl_load_kept<T>(from + 2);
    T fourth = rl_load_streaming<T>(from + 3);
    T fifth = rl_load_constant<T>(from + 4);
    rl_store(to, first);
    rl_store_streaming(to + 1, second);
    rl_store(to + 2, third);
    rl_store(to + 3, fourth);
    rl_store(to + 4, fifth);
}

RL_ENTRY(128) kernel(rl_u8* bytes, rl_bf16* bf16, rl_f16* f16, float* f32, double* f64, rl_u64* word, rl_u32* count) {
    rl_begin();
    RL_SHARED(float, lanes, 128);
    RL_SHARED(rl_u32, flags, 4);
    lanes[rl_thread()] = rl_f32_from_bf16(bf16[rl_thread()]) + rl_f32_from_f16(f16[rl_block()]) + f32[rl_blocks()];
    if (rl_thread() < 4) flags[rl_thread()] = 0;
    rl_barrier();
    rl_fence();
    rl_atomic_min(word, 3);
    rl_atomic_add(&flags[1], 2);
    count[1] = rl_atomic_add(count, 2) + flags[1];
    if (rl_ticket(word) == 0) rl_announce(word + 1);
    rl_await(word + 1);
    copy_two(bytes, bytes + 8);
    copy_two(bf16, bf16 + 8);
    copy_two(f32, f32 + 8);
    copy_two(f64, f64 + 8);
    copy_two((rl_vector<rl_f16, 8>*)f16, (rl_vector<rl_f16, 8>*)bf16);
    float sum = 0;
    RL_UNROLL for (int at = 0; at < 8; ++at) sum += lanes[at];
    bf16[0] = rl_bf16_from_f32(sum);
    bf16[1] = rl_bf16_from_f64(f64[4]);
    f16[0] = rl_f16_from_f32(sum);
    f16[1] = rl_f16_from_f64(f64[4]);
    f32[0] = rl_f32_from_f32(sum);
    f32[1] = rl_f32_from_f64(f64[4]);
    f32[2] = rl_float(rl_bits(sum) ^ 1);
    f32[3] = rl_round_odd(f64[4]);
}
