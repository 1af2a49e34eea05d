//! Conversions between stored and computed numbers.
//!
//! Widening is exact. Rounding is to nearest even, once, and gives every NaN
//! one encoding, so that all engines store the same bytes.

use super::{Definition, Primitive};

pub(super) static BITS: Definition = Definition {
    words: &["rl_bits"],
    needs: &[Primitive::Integers, Primitive::Inline],
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
    needs: &[Primitive::Integers, Primitive::Inline],
    device: "RL_INLINE float rl_float(rl_u32 bits) { return __uint_as_float(bits); }\n",
    host: "\
RL_INLINE float rl_float(rl_u32 bits) {
    float value;
    __builtin_memcpy(&value, &bits, sizeof(value));
    return value;
}
",
};

const WIDEN_F32_TEXT: &str = "RL_INLINE float rl_widen(float value) { return value; }\n";

pub(super) static WIDEN_F32: Definition = Definition {
    words: &["rl_widen", "float"],
    needs: &[Primitive::Inline],
    device: WIDEN_F32_TEXT,
    host: WIDEN_F32_TEXT,
};

const WIDEN_BF16_TEXT: &str = "RL_INLINE float rl_widen(rl_bf16 value) { return rl_float(static_cast<rl_u32>(value.bits) << 16); }\n";

pub(super) static WIDEN_BF16: Definition = Definition {
    words: &["rl_widen", "rl_bf16"],
    needs: &[
        Primitive::Integers,
        Primitive::Bf16,
        Primitive::Inline,
        Primitive::Float,
    ],
    device: WIDEN_BF16_TEXT,
    host: WIDEN_BF16_TEXT,
};

pub(super) static WIDEN_F16: Definition = Definition {
    words: &["rl_widen", "rl_f16"],
    needs: &[
        Primitive::Integers,
        Primitive::F16,
        Primitive::Inline,
        Primitive::Float,
    ],
    device: "\
RL_INLINE float rl_widen(rl_f16 value) {
    float wide;
    asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(wide) : \"h\"(value.bits));
    return wide;
}
",
    // The exponent's bias differs by 112; a multiplication also puts subnormals right.
    host: "\
RL_INLINE float rl_widen(rl_f16 value) {
    rl_u32 sign = static_cast<rl_u32>(value.bits & 0x8000) << 16;
    rl_u32 magnitude = static_cast<rl_u32>(value.bits & 0x7FFF) << 13;
    if ((value.bits & 0x7C00) == 0x7C00) return rl_float(sign | magnitude | 0x7F800000);
    return rl_float(sign | magnitude) * 0x1p112f;
}
",
};

const TO_TEXT: &str = "template <typename T> struct rl_to {};\n";

pub(super) static TO: Definition = Definition {
    words: &["rl_to"],
    needs: &[],
    device: TO_TEXT,
    host: TO_TEXT,
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

pub(super) static ROUND_ODD: Definition = Definition {
    words: &["rl_round_odd"],
    needs: &[Primitive::Inline, Primitive::Bits, Primitive::Float],
    device: ROUND_ODD_TEXT,
    host: ROUND_ODD_TEXT,
};

const ROUND_F32_TEXT: &str = "\
RL_INLINE float rl_round_to(rl_to<float>, float value) {
    return value == value ? value : rl_float(0x7FC00000);
}
";

pub(super) static ROUND_F32: Definition = Definition {
    words: &["rl_round", "float"],
    needs: &[Primitive::Inline, Primitive::Float, Primitive::To],
    device: ROUND_F32_TEXT,
    host: ROUND_F32_TEXT,
};

const ROUND_F32_FROM_F64_TEXT: &str = "\
RL_INLINE float rl_round_to(rl_to<float>, double value) {
    return value == value ? static_cast<float>(value) : rl_float(0x7FC00000);
}
";

pub(super) static ROUND_F32_FROM_F64: Definition = Definition {
    words: &["rl_round", "float", "double"],
    needs: &[Primitive::Inline, Primitive::Float, Primitive::To],
    device: ROUND_F32_FROM_F64_TEXT,
    host: ROUND_F32_FROM_F64_TEXT,
};

const ROUND_BF16_TEXT: &str = "\
RL_INLINE rl_bf16 rl_round_to(rl_to<rl_bf16>, float value) {
    rl_u32 bits = rl_bits(value);
    bits += 0x7FFF + ((bits >> 16) & 1);
    return {static_cast<rl_u16>(value == value ? bits >> 16 : 0x7FC0)};
}
";

pub(super) static ROUND_BF16: Definition = Definition {
    words: &["rl_round", "rl_bf16"],
    needs: &[
        Primitive::Integers,
        Primitive::Bf16,
        Primitive::Inline,
        Primitive::Bits,
        Primitive::To,
    ],
    device: ROUND_BF16_TEXT,
    host: ROUND_BF16_TEXT,
};

const ROUND_BF16_FROM_F64_TEXT: &str = "\
RL_INLINE rl_bf16 rl_round_to(rl_to<rl_bf16> to, double value) { return rl_round_to(to, rl_round_odd(value)); }
";

pub(super) static ROUND_BF16_FROM_F64: Definition = Definition {
    words: &["rl_round", "rl_bf16", "double"],
    needs: &[
        Primitive::Bf16,
        Primitive::Inline,
        Primitive::To,
        Primitive::RoundOdd,
        Primitive::RoundBf16,
    ],
    device: ROUND_BF16_FROM_F64_TEXT,
    host: ROUND_BF16_FROM_F64_TEXT,
};

pub(super) static ROUND_F16: Definition = Definition {
    words: &["rl_round", "rl_f16"],
    needs: &[
        Primitive::Integers,
        Primitive::F16,
        Primitive::Inline,
        Primitive::Bits,
        Primitive::Float,
        Primitive::To,
    ],
    device: "\
RL_INLINE rl_f16 rl_round_to(rl_to<rl_f16>, float value) {
    rl_u16 bits;
    asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(bits) : \"f\"(value));
    return {static_cast<rl_u16>(value == value ? bits : 0x7E00)};
}
",
    // From 2^16 on: infinity. Below 2^-14 the sum with 0.5 has the spacing of f16's
    // subnormals, and is rounded as it should be.
    host: "\
RL_INLINE rl_f16 rl_round_to(rl_to<rl_f16>, float value) {
    rl_u32 sign = (rl_bits(value) >> 16) & 0x8000;
    rl_u32 magnitude = rl_bits(value) & 0x7FFFFFFF;
    rl_u32 bits = (magnitude - (112u << 23) + 0xFFF + ((magnitude >> 13) & 1)) >> 13;
    if (magnitude < 0x38800000) bits = rl_bits(rl_float(magnitude) + 0.5f) - 0x3F000000;
    if (magnitude >= 0x47800000) bits = 0x7C00;
    return {static_cast<rl_u16>(value == value ? sign | bits : 0x7E00)};
}
",
};

const ROUND_F16_FROM_F64_TEXT: &str = "\
RL_INLINE rl_f16 rl_round_to(rl_to<rl_f16> to, double value) { return rl_round_to(to, rl_round_odd(value)); }
";

pub(super) static ROUND_F16_FROM_F64: Definition = Definition {
    words: &["rl_round", "rl_f16", "double"],
    needs: &[
        Primitive::F16,
        Primitive::Inline,
        Primitive::To,
        Primitive::RoundOdd,
        Primitive::RoundF16,
    ],
    device: ROUND_F16_FROM_F64_TEXT,
    host: ROUND_F16_FROM_F64_TEXT,
};

const ROUND_TEXT: &str = "\
template <typename T, typename V> RL_INLINE T rl_round(V value) { return rl_round_to(rl_to<T>(), value); }
";

pub(super) static ROUND: Definition = Definition {
    words: &["rl_round"],
    needs: &[Primitive::Inline, Primitive::To],
    device: ROUND_TEXT,
    host: ROUND_TEXT,
};
