template <typename T> RL_INLINE void all_memory(T* p, T* q) {
  T a = rl_load<T>(p); T b = rl_load_fresh(p + 1); rl_store(q, a); rl_store_streaming(q + 1, b);
}
RL_ENTRY(128) kernel(rl_u8* a, rl_bf16* b, rl_f16* c, float* d, double* e, rl_u64* f, rl_u32* g) {
  RL_SHARED(float, parts, 128);
  RL_SHARED(rl_u32, flags, 4);
  parts[rl_thread()] = rl_widen(b[rl_thread()]) + rl_widen(c[rl_block()]) + rl_widen(d[rl_blocks()]);
  if (rl_thread() < 4) flags[rl_thread()] = 0;
  rl_barrier();
  rl_fence();
  rl_atomic_min(f, 3);
  rl_atomic_add(&flags[1], 2);
  g[1] = rl_atomic_add(g, 2) + flags[1];
  all_memory(a, a + 8);
  all_memory(b, b + 8); all_memory(c, c + 8); all_memory(d, d + 8); all_memory(e, e + 8); 
  all_memory((rl_vector<rl_bf16, 8>*)a, (rl_vector<rl_bf16, 8>*)b);
  all_memory((rl_vector<float, 2>*)a, (rl_vector<float, 2>*)b);
  float sum = 0; RL_UNROLL for (int i = 0; i < 8; ++i) sum += parts[i];
  b[0] = rl_round<rl_bf16>(sum); b[1] = rl_round<rl_bf16>(e[4]);
  c[0] = rl_round<rl_f16>(sum); c[1] = rl_round<rl_f16>(e[4]);
  d[0] = rl_round<float>(sum); d[1] = rl_round<float>(e[4]);
  a[0] = rl_bits(rl_float(3)); 
}
