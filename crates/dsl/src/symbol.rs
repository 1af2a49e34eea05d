//! Every word of the language.

/// `order(...)`: meaning.
pub const ORDER: &str = "order";
/// `order(block = 256)`.
pub const BLOCK: &str = "block";
/// `order(accumulate = f32)`.
pub const ACCUMULATE: &str = "accumulate";
/// `tile(...)`: speed.
pub const TILE: &str = "tile";
/// `tile(forward(...))`.
pub const FORWARD: &str = "forward";
/// `tile(backward(...))`.
pub const BACKWARD: &str = "backward";

/// Bound of a float type parameter.
pub const FLOAT: &str = "Float";
/// Bound of an integer type parameter.
pub const INT: &str = "Int";
/// Type of a row count.
pub const USIZE: &str = "usize";

/// `Table<T, R, C>`.
pub const TABLE: &str = "Table";
/// `Rows<T>`.
pub const ROWS: &str = "Rows";
/// `Index<I, BOUND>`.
pub const INDEX: &str = "Index";
/// `Index<I, BOUND, { pad = -1 }>`.
pub const PAD: &str = "pad";
/// Types that arithmetic brings.
pub const LATER_TYPES: [&str; 3] = ["Vector", "PerRow", "Scalar"];

/// `segment_sum(rows, index)`.
pub const SEGMENT_SUM: &str = "segment_sum";
/// Functions that arithmetic brings.
pub const LATER_FUNCTIONS: [&str; 7] = ["sqrt", "min", "max", "select", "mean", "sum", "column_sum"];

/// Name of a single output, and the beginning of the names of several.
pub const OUT: &str = "out";
/// Beginning of the name of a gradient and of a cotangent.
pub const GRADIENT: &str = "d_";
/// Beginning of the names of the functions that generated text is built from.
pub const PRIMITIVE: &str = "rl_";
/// The accumulator type in the text form.
pub const ACC: &str = "acc";

/// Names a declaration may not give away: words of the language, of its text form and of the
/// module that it becomes.
pub const RESERVED: [&str; 27] = [
    TABLE,
    ROWS,
    INDEX,
    FLOAT,
    INT,
    SEGMENT_SUM,
    ACC,
    OUT,
    PAD,
    "f32",
    "f16",
    "bf16",
    "f64",
    "u8",
    "i32",
    "i64",
    USIZE,
    "Vector",
    "PerRow",
    "Scalar",
    // What a generated module holds.
    "Inputs",
    "Outputs",
    "OutputsMut",
    "Cotangents",
    "Gradients",
    "GradientsMut",
    "Wants",
];
