//! Sums over the threads of a block, and what stands on them: how often a tile has each digit,
//! and the rank of each position among those of its digit.

use super::super::Writer;
use super::Sort;

/// `scan`: sums over the threads of a block.
pub(super) fn scan(writer: &mut Writer, threads: u32) {
    writer.line("");
    writer.line("// The sum of the values of all threads before this one; total: of all. Called by every thread.");
    writer.block("RL_INLINE rl_u32 scan(rl_u32* sums, rl_u32 value, rl_u32& total)", |writer| {
        writer.line("const rl_u32 thread = rl_thread();");
        writer.line(format!("rl_u32* from = sums, * to = sums + {threads};"));
        writer.line("rl_u32 sum = value;");
        writer.line("rl_barrier();");
        writer.line("from[thread] = sum;");
        writer.line("rl_barrier();");
        writer.line("// From sums of step threads to those of four times as many.");
        writer.block(format!("RL_UNROLL for (rl_u32 step = 1; step < {threads}; step *= 4)"), |writer| {
            writer.block("RL_UNROLL for (rl_u32 back = step; back < 4 * step; back += step)", |writer| {
                writer.line("if (thread >= back) sum += from[thread - back];");
            });
            writer.line("to[thread] = sum;");
            writer.line("rl_barrier();");
            writer.line("rl_u32* const other = from;");
            writer.line("from = to;");
            writer.line("to = other;");
        });
        writer.line(format!("total = from[{}];", threads - 1));
        writer.line("return sum - value;");
    });
}

impl Sort {
    /// Threads of a group in which each has another digit: a power of two.
    pub fn width(&self) -> u64 {
        self.digits.values.next_power_of_two()
    }

    /// `tally`: how often a tile has each digit, whatever its order.
    pub fn tally_helper(&self, writer: &mut Writer) {
        let (threads, digits, width) = (self.threads, self.digits.values, self.width());
        writer.line("");
        writer.line(
            "// How often the items of all threads have this thread's number as their digit. Called by every thread.",
        );
        writer.block("RL_INLINE rl_u32 tally(rl_u16* places, rl_u32* sums, const rl_u32* digits)", |writer| {
            writer.line("const rl_u32 thread = rl_thread();");
            self.count_own(writer);
            writer.line("// Each thread sums one digit of some threads; neighbours begin at other banks.");
            writer.line(format!("const rl_u32 digit = thread % {width}, first = thread / {width} * {width};"));
            writer.line("rl_u32 sum = 0;");
            let inside = if digits < width { format!("if (digit < {digits}) ") } else { String::new() };
            writer.line(format!(
                "{inside}for (rl_u32 other = 0; other < {width}; ++other) sum += places[digit * {threads} + first + (other + 2 * digit) % {width}];"
            ));
            writer.line("sums[thread] = sum;");
            writer.line("rl_barrier();");
            writer.line("sum = 0;");
            writer.line(format!(
                "if (thread < {digits}) for (rl_u32 other = thread; other < {threads}; other += {width}) sum += sums[other];"
            ));
            writer.line("return sum;");
        });
    }

    /// `rank`: the places of a tile.
    pub fn rank_helper(&self, writer: &mut Writer) {
        let digits = self.digits.values;
        writer.line("");
        writer.line("// For each digit and thread, in places[digit][thread]: items of the tile that come before the");
        writer.line("// thread's own of that digit. total: items of the tile. Called by every thread.");
        let head = "RL_INLINE void rank(rl_u16* places, rl_u32* sums, const rl_u32* digits, rl_u32& total)";
        writer.block(head, |writer| {
            writer.line("const rl_u32 thread = rl_thread();");
            writer.line("rl_barrier();");
            self.count_own(writer);
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

    /// Each thread's items of each digit, in places[digit][thread].
    fn count_own(&self, writer: &mut Writer) {
        let (threads, digits, items) = (self.threads, self.digits.values, self.items);
        writer
            .line(format!("for (rl_u32 digit = 0; digit < {digits}; ++digit) places[digit * {threads} + thread] = 0;"));
        writer.line(format!(
            "RL_UNROLL for (int item = 0; item < {items}; ++item) if (digits[item] < {digits}) places[digits[item] * {threads} + thread] += 1;"
        ));
        writer.line("rl_barrier();");
    }

    /// The shared arrays of [`Sort::tally_helper`] and [`Sort::rank_helper`].
    pub fn shared(&self, writer: &mut Writer) {
        let threads = self.threads;
        writer.line(format!("RL_SHARED(rl_u16, places, {});", self.digits.values * u64::from(threads)));
        writer.line(format!("RL_SHARED(rl_u32, sums, {});", 2 * threads));
    }

    /// How often the ranked tile has the digit of this thread's number, as an expression.
    pub fn ranked_count(&self) -> String {
        let (threads, digits) = (self.threads, self.digits.values);
        let end = format!("(rl_thread() + 1 < {digits} ? places[(rl_thread() + 1) * {threads}] : total)");
        format!("{end} - places[rl_thread() * {threads}]")
    }

    /// Moves the items of a ranked tile: those of a digit to `begin[digit]` and behind, plus their rank.
    pub fn move_items(&self, writer: &mut Writer, to: &str) {
        let (threads, digits) = (self.threads, self.digits.values);
        writer.block(self.each_item(), |writer| {
            writer.line("const rl_u32 digit = digits[item];");
            writer.line(format!("if (digit >= {digits}) continue;"));
            writer.line(format!(
                "rl_store({to} + (begin[digit] + places[digit * {threads} + rl_thread()]++), from[item]);"
            ));
        });
    }
}
