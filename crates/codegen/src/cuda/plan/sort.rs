//! The stable sort of positions by row, digit by digit.

use super::super::{Param, PlanArray, Writer};
use super::{COUNTS, Count, DIGIT_BITS, ERRORS, ITEMS, OTHER_ORDER, Plan, THREADS, TILE, TOTALS, array, blocks, tiles};

/// Entries of counts that a thread scans at a time.
const RUN: u32 = 8;

/// How keys are cut into digits.
pub(super) struct Sort {
    /// Values of a digit.
    pub digits: u64,
    /// Digits of a key.
    pub passes: u32,
    /// Whether some keys are behind all rows.
    pub padded: bool,
}

impl Sort {
    /// The digit of a row, or of [`PlanArray::NO_ROW`], as an expression.
    pub fn digit(&self, row: &str, rows: u64, pass: u32) -> String {
        let key = if self.padded { format!("({row} < {rows} ? {row} : {rows})") } else { row.to_owned() };
        match self.passes {
            1 => key,
            _ if pass == 0 => format!("{key} % {}", self.digits),
            _ => format!("({key} >> {}) % {}", pass * DIGIT_BITS, self.digits),
        }
    }

    /// `rank`: the places of a tile.
    pub fn helpers(&self, plan: &mut Plan) {
        let digits = self.digits;
        let writer = &mut plan.writer;
        writer.line("");
        writer.line("// For each digit and thread, in places[digit][thread]: items of the tile that come before the");
        writer.line("// thread's own of that digit. total: items of the tile. Called by every thread.");
        let head = "RL_INLINE void rank(rl_u16* places, rl_u32* sums, const rl_u32* digits, rl_u32& total)";
        writer.block(head, |writer| {
            writer.line("const rl_u32 thread = rl_thread();");
            writer.line("rl_barrier();");
            writer.line(format!(
                "for (rl_u32 digit = 0; digit < {digits}; ++digit) places[digit * {THREADS} + thread] = 0;"
            ));
            writer.line(format!(
                "RL_UNROLL for (int item = 0; item < {ITEMS}; ++item) if (digits[item] < {digits}) places[digits[item] * {THREADS} + thread] += 1;"
            ));
            writer.line("rl_barrier();");
            writer.line("// Each thread sums a run of entries.");
            writer.line(format!("rl_u16* const own = places + thread * {digits};"));
            writer.line("rl_u32 sum = 0;");
            writer.line(format!("for (rl_u32 entry = 0; entry < {digits}; ++entry) sum += own[entry];"));
            writer.line("rl_u32 before = scan(sums, sum, total);");
            writer.block(format!("for (rl_u32 entry = 0; entry < {digits}; ++entry)"), |writer| {
                writer.line("const rl_u32 one = own[entry];");
                writer.line("own[entry] = static_cast<rl_u16>(before);");
                writer.line("before += one;");
            });
            writer.line("rl_barrier();");
        });
    }

    /// The shared arrays of [`Sort::rank`].
    pub fn shared(&self, writer: &mut Writer) {
        writer.line(format!("RL_SHARED(rl_u16, places, {});", self.digits * u64::from(THREADS)));
        writer.line(format!("RL_SHARED(rl_u32, sums, {THREADS});"));
    }

    /// Every tile of positions, one block after the other.
    pub fn each_tile(&self, writer: &mut Writer, inside: impl FnOnce(&mut Writer)) {
        writer.line(format!("const rl_u64 tiles = (positions + {}) / {TILE};", TILE - 1));
        writer.block("for (rl_u64 tile = rl_block(); tile < tiles; tile += rl_blocks())", inside);
    }

    pub fn rank(&self, writer: &mut Writer) {
        writer.line("rl_u32 total;");
        writer.line("rank(places, sums, digits, total);");
    }

    /// How often each digit occurs in the tile.
    pub fn store_counts(&self, writer: &mut Writer) {
        let digits = self.digits;
        writer.block(format!("if (rl_thread() < {digits})"), |writer| {
            writer.line("const rl_u32 digit = rl_thread();");
            writer.line(format!("const rl_u32 end = digit + 1 < {digits} ? places[(digit + 1) * {THREADS}] : total;"));
            writer.line(format!("rl_store(counts + digit * tiles + tile, end - places[digit * {THREADS}]);"));
        });
    }

    /// Where pass `pass` puts the order: the last one into the plan's own.
    fn target(&self, pass: u32) -> Param {
        if (self.passes - 1 - pass).is_multiple_of(2) { array(PlanArray::Order) } else { Param::Scratch(OTHER_ORDER) }
    }

    /// `from[item]` and `digits[item]`: this thread's positions in the order so far.
    fn items(&self, plan_rows: u64, writer: &mut Writer, pass: u32) {
        writer.line(format!("rl_u32 from[{ITEMS}], digits[{ITEMS}];"));
        writer.block(format!("RL_UNROLL for (int item = 0; item < {ITEMS}; ++item)"), |writer| {
            writer.line(format!("const rl_u64 at = tile * {TILE} + rl_thread() * {ITEMS} + item;"));
            writer.line(format!("digits[item] = {};", self.digits));
            writer.line("if (at >= positions) continue;");
            let from = pass.checked_sub(1).map(|before| name(self.target(before)));
            writer.line(match from {
                Some(from) => format!("from[item] = rl_load<rl_u32>({from} + at);"),
                None => "from[item] = static_cast<rl_u32>(at);".to_owned(),
            });
            writer.line("const rl_u32 row = rl_load<rl_u32>(rows + from[item]);");
            writer.line(format!("digits[item] = {};", self.digit("row", plan_rows, pass)));
        });
    }

    /// Counts a later digit in each tile of the order so far.
    pub fn count(&self, plan: &mut Plan, pass: u32) {
        let from = self.target(pass - 1);
        let params = [array(PlanArray::Rows), from, Param::Scratch(COUNTS), Param::Positions];
        let rows = plan.rows;
        let what = "counts one digit of the rows in each tile of the order so far";
        plan.entry(&format!("plan_count{pass}"), what, tiles(), &params, |writer| {
            self.shared(writer);
            self.each_tile(writer, |writer| {
                self.items(rows, writer, pass);
                self.rank(writer);
                self.store_counts(writer);
            });
        });
    }

    /// Counts to the places where their items go: exclusive sums over digits, then tiles.
    /// Where rows are one digit, their segments and blocks too.
    pub fn offsets(&self, plan: &mut Plan) {
        let mut params = vec![Param::Scratch(COUNTS)];
        let alone = self.passes == 1;
        if alone {
            let arrays = [PlanArray::SegmentStart, PlanArray::BlockStart, PlanArray::PartialStart];
            params.extend(arrays.map(array));
            params.extend([Param::Scratch(ERRORS), Param::Scratch(TOTALS)]);
        }
        params.push(Param::Positions);
        let what = if alone { "turns counts into places, segments and blocks" } else { "turns counts into places" };
        let (digits, rows, padded) = (self.digits, plan.rows, self.padded);
        plan.entry("plan_offsets", what, Count::Fixed(1), &params, |writer| {
            writer.line(format!("RL_SHARED(rl_u32, sums, {THREADS});"));
            writer.line(format!("const rl_u64 tiles = (positions + {}) / {TILE};", TILE - 1));
            writer.line("rl_u32 carry = 0;");
            let round = THREADS * RUN;
            writer.block(format!("for (rl_u64 begin = 0; begin < tiles * {digits}; begin += {round})"), |writer| {
                writer.line(format!("const rl_u64 first = begin + rl_thread() * {RUN};"));
                writer.line(format!("rl_u32 own[{RUN}], sum = 0, total;"));
                let items = format!("RL_UNROLL for (int item = 0; item < {RUN}; ++item)");
                writer.block(&items, |writer| {
                    let load = "rl_load_fresh(counts + first + item)";
                    writer.line(format!("own[item] = first + item < tiles * {digits} ? {load} : 0;"));
                    writer.line("sum += own[item];");
                });
                writer.line("rl_u32 before = carry + scan(sums, sum, total);");
                writer.block(&items, |writer| {
                    writer
                        .line(format!("if (first + item < tiles * {digits}) rl_store(counts + first + item, before);"));
                    writer.line("before += own[item];");
                });
                writer.line("carry += total;");
            });
            if alone {
                writer.line("rl_barrier();");
                let end = if padded { format!("rl_load_fresh(counts + {rows} * tiles)") } else { "carry".to_owned() };
                writer.block(format!("for (rl_u32 row = rl_thread(); row <= {rows}; row += {THREADS})"), |writer| {
                    writer.line(format!(
                        "rl_store(segment_start + row, row < {rows} ? rl_load_fresh(counts + row * tiles) : {end});"
                    ));
                });
                writer.line("rl_barrier();");
                blocks::call_blocks(writer, true);
            }
        });
    }

    /// Moves the positions of each tile behind all of smaller digits, and of the same digit before them.
    pub fn scatter(&self, plan: &mut Plan, pass: u32) {
        let to = self.target(pass);
        let mut params = vec![array(PlanArray::Rows)];
        params.extend(pass.checked_sub(1).map(|before| self.target(before)));
        params.extend([to, Param::Scratch(COUNTS)]);
        let alone = self.passes == 1;
        if alone {
            params.extend([array(PlanArray::BlockStart), array(PlanArray::BlockRow)]);
        }
        params.push(Param::Positions);
        let what = match alone {
            true => "moves positions to their places and names the row of each block",
            false => "moves positions to their places by one digit",
        };
        let (rows, digits) = (plan.rows, self.digits);
        plan.entry(&format!("plan_scatter{pass}"), what, tiles(), &params, |writer| {
            self.shared(writer);
            writer.line(format!("RL_SHARED(rl_u32, begin, {digits});"));
            self.each_tile(writer, |writer| {
                self.items(rows, writer, pass);
                self.rank(writer);
                // Added before places are taken: where the tile's first of the digit goes, less its rank.
                writer.line(format!(
                    "if (rl_thread() < {digits}) begin[rl_thread()] = rl_load<rl_u32>(counts + rl_thread() * tiles + tile) - places[rl_thread() * {THREADS}];"
                ));
                writer.line("rl_barrier();");
                writer.block(format!("RL_UNROLL for (int item = 0; item < {ITEMS}; ++item)"), |writer| {
                    writer.line("const rl_u32 digit = digits[item];");
                    writer.line(format!("if (digit >= {digits}) continue;"));
                    writer.line(format!(
                        "rl_store({} + (begin[digit] + places[digit * {THREADS} + rl_thread()]++), from[item]);",
                        name(to)
                    ));
                });
            });
            if alone {
                blocks::name_rows(writer, rows);
            }
        });
    }
}

fn name(order: Param) -> &'static str {
    if order == array(PlanArray::Order) { "order" } else { "other_order" }
}
