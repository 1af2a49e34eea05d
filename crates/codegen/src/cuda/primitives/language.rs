//! Types, and what declares entries, functions and loops.

use super::Definition;

const INTEGERS_TEXT: &str = "\
typedef unsigned char rl_u8;
typedef unsigned short rl_u16;
typedef unsigned int rl_u32;
typedef unsigned long long rl_u64;
typedef int rl_i32;
typedef long long rl_i64;
";

pub(super) static INTEGERS: Definition = Definition { words: &[], device: INTEGERS_TEXT, host: INTEGERS_TEXT };

const BF16_TEXT: &str = "struct rl_bf16 { rl_u16 bits; };\n";

pub(super) static BF16: Definition = Definition { words: &["rl_bf16"], device: BF16_TEXT, host: BF16_TEXT };

const F16_TEXT: &str = "struct rl_f16 { rl_u16 bits; };\n";

pub(super) static F16: Definition = Definition { words: &["rl_f16"], device: F16_TEXT, host: F16_TEXT };

const VECTOR_TEXT: &str = "\
template <typename T, int N> struct alignas(sizeof(T) * N) rl_vector { T lane[N]; };
";

pub(super) static VECTOR: Definition = Definition { words: &["rl_vector"], device: VECTOR_TEXT, host: VECTOR_TEXT };

pub(super) static ENTRY: Definition = Definition {
    words: &["RL_ENTRY"],
    device: "#define RL_ENTRY(...) extern \"C\" __global__ void __launch_bounds__(__VA_ARGS__)\n",
    host: "#define RL_ENTRY(...) static void\n",
};

pub(super) static INLINE: Definition = Definition {
    words: &["RL_INLINE"],
    device: "#define RL_INLINE __device__ __forceinline__ static\n",
    host: "#define RL_INLINE static inline\n",
};

pub(super) static UNROLL: Definition = Definition {
    words: &["RL_UNROLL"],
    device: "#define RL_UNROLL _Pragma(\"unroll\")\n",
    host: "#define RL_UNROLL\n",
};
