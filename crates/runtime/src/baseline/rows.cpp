// Rows of a tensor as bits, on every accelerator. Rows are checked against the list before.

using row = rl_vector<WORD, LANES>;

// out[s] = source[rows[s]]
RL_ENTRY(128) gather_rows(
    const WORD* source, rl_u64 source_stride, const rl_u32* rows, WORD* out, rl_u64 out_stride, rl_u64 positions) {
    for (rl_u64 s = rl_block(); s < positions; s += rl_blocks()) {
        const WORD* const from = source + rl_load<rl_u32>(rows + s) * source_stride;
        WORD* const to = out + s * out_stride;
        for (rl_u64 h = rl_thread() * LANES; h < COLUMNS; h += 128 * LANES) {
            rl_store(to + h, rl_load<row>(from + h));
        }
    }
}

// found = the smallest s * H + h at which left[s] and right[rows[s]] differ in any bit.
RL_ENTRY(128) compare_rows(
    const WORD* left, rl_u64 left_stride, const WORD* right, rl_u64 right_stride, const rl_u32* rows,
    rl_u64* found, rl_u64 positions) {
    for (rl_u64 s = rl_block(); s < positions; s += rl_blocks()) {
        const WORD* const a = left + s * left_stride;
        const WORD* const b = right + rl_load<rl_u32>(rows + s) * right_stride;
        for (rl_u64 h = rl_thread() * LANES; h < COLUMNS; h += 128 * LANES) {
            const row x = rl_load<row>(a + h);
            const row y = rl_load<row>(b + h);
            rl_u32 same = 0;
            while (same < LANES && x.lane[same] == y.lane[same]) same++;
            if (same < LANES) rl_atomic_min(found, s * COLUMNS + h + same);
        }
    }
}
