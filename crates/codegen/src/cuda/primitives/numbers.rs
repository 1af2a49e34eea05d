//! Conversions between stored and computed numbers.
//!
//! Widening is exact. Rounding is to nearest even, once, and gives every NaN
//! one encoding, so that all engines store the same bytes.

use super::Definition;

pub(super) static BITS: Definition = Definition {
    words: &["rl_bits"],
    device: "RL_INLINE rl_u32 rl_bits(float value) { return __float_as_uint(value); }\n",
    host: "\
RL_INLINE rl_u32 rl_bits(float value) {
    rl_u32 bits;
    __builtin_memcpy(&bits, &value, sizeof(bits));
    return bits;
}
",
};

pub(super) static FLOAT: Definition = Definition {
    words: &["rl_float"],
    device: "RL_INLINE float rl_float(rl_u32 bits) { return __uint_as_float(bits); }\n",
    host: "\
RL_INLINE float rl_float(rl_u32 bits) {
    float value;
    __builtin_memcpy(&value, &bits, sizeof(value));
    return value;
}
",
};

const F32_FROM_BF16_TEXT: &str =
    "RL_INLINE float rl_f32_from_bf16(rl_bf16 value) { return rl_float(static_cast<rl_u32>(value.bits) << 16); }\n";

pub(super) static F32_FROM_BF16: Definition =
    Definition { words: &["rl_f32_from_bf16"], device: F32_FROM_BF16_TEXT, host: F32_FROM_BF16_TEXT };

pub(super) static F32_FROM_F16: Definition = Definition {
    words: &["rl_f32_from_f16"],
    device: "\
RL_INLINE float rl_f32_from_f16(rl_f16 value) {
    float wide;
    asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(wide) : \"h\"(value.bits));
    return wide;
}
",
    // The exponent's bias differs by 112; a multiplication also puts subnormals right.
    host: "\
RL_INLINE float rl_f32_from_f16(rl_f16 value) {
    rl_u32 sign = static_cast<rl_u32>(value.bits & 0x8000) << 16;
    rl_u32 magnitude = static_cast<rl_u32>(value.bits & 0x7FFF) << 13;
    if ((value.bits & 0x7C00) == 0x7C00) return rl_float(sign | magnitude | 0x7F800000);
    return rl_float(sign | magnitude) * 0x1p112f;
}
",
};

const ROUND_ODD_TEXT: &str = "\
RL_INLINE float rl_round_odd(double value) {
    float nearest = static_cast<float>(value);
    double back = nearest;
    if (back == value || value != value) return nearest;
    bool away = value < 0 ? back < value : back > value;
    return rl_float((rl_bits(nearest) - (away ? 1 : 0)) | 1);
}
";

pub(super) static ROUND_ODD: Definition =
    Definition { words: &["rl_round_odd"], device: ROUND_ODD_TEXT, host: ROUND_ODD_TEXT };

const F32_FROM_F32_TEXT: &str = "\
RL_INLINE float rl_f32_from_f32(float value) {
    return value == value ? value : rl_float(0x7FC00000);
}
";

pub(super) static F32_FROM_F32: Definition =
    Definition { words: &["rl_f32_from_f32"], device: F32_FROM_F32_TEXT, host: F32_FROM_F32_TEXT };

const F32_FROM_F64_TEXT: &str = "\
RL_INLINE float rl_f32_from_f64(double value) {
    return value == value ? static_cast<float>(value) : rl_float(0x7FC00000);
}
";

pub(super) static F32_FROM_F64: Definition =
    Definition { words: &["rl_f32_from_f64"], device: F32_FROM_F64_TEXT, host: F32_FROM_F64_TEXT };

const BF16_FROM_F32_TEXT: &str = "\
RL_INLINE rl_bf16 rl_bf16_from_f32(float value) {
    rl_u32 bits = rl_bits(value);
    bits += 0x7FFF + ((bits >> 16) & 1);
    return {static_cast<rl_u16>(value == value ? bits >> 16 : 0x7FC0)};
}
";

pub(super) static BF16_FROM_F32: Definition =
    Definition { words: &["rl_bf16_from_f32"], device: BF16_FROM_F32_TEXT, host: BF16_FROM_F32_TEXT };

const BF16_FROM_F64_TEXT: &str = "\
RL_INLINE rl_bf16 rl_bf16_from_f64(double value) { return rl_bf16_from_f32(rl_round_odd(value)); }
";

pub(super) static BF16_FROM_F64: Definition =
    Definition { words: &["rl_bf16_from_f64"], device: BF16_FROM_F64_TEXT, host: BF16_FROM_F64_TEXT };

pub(super) static F16_FROM_F32: Definition = Definition {
    words: &["rl_f16_from_f32"],
    device: "\
RL_INLINE rl_f16 rl_f16_from_f32(float value) {
    rl_u16 bits;
    asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(bits) : \"f\"(value));
    return {static_cast<rl_u16>(value == value ? bits : 0x7E00)};
}
",
    // From 2^16 on: infinity. Below 2^-14 the sum with 0.5 has the spacing of f16's
    // subnormals, and is rounded as it should be.
    host: "\
RL_INLINE rl_f16 rl_f16_from_f32(float value) {
    rl_u32 sign = (rl_bits(value) >> 16) & 0x8000;
    rl_u32 magnitude = rl_bits(value) & 0x7FFFFFFF;
    rl_u32 bits = (magnitude - (112u << 23) + 0xFFF + ((magnitude >> 13) & 1)) >> 13;
    if (magnitude < 0x38800000) bits = rl_bits(rl_float(magnitude) + 0.5f) - 0x3F000000;
    if (magnitude >= 0x47800000) bits = 0x7C00;
    return {static_cast<rl_u16>(value == value ? sign | bits : 0x7E00)};
}
",
};

const F16_FROM_F64_TEXT: &str = "\
RL_INLINE rl_f16 rl_f16_from_f64(double value) { return rl_f16_from_f32(rl_round_odd(value)); }
";

pub(super) static F16_FROM_F64: Definition =
    Definition { words: &["rl_f16_from_f64"], device: F16_FROM_F64_TEXT, host: F16_FROM_F64_TEXT };
