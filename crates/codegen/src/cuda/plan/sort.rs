//! The stable sort of positions by row, digit by digit: what every kind of it shares.

use super::super::{Count, Param, PlanArray, Writer};
use super::{Digits, OTHER_ORDER, array};

/// How positions are sorted.
pub(super) struct Sort {
    pub digits: Digits,
    /// Threads of a block.
    pub threads: u32,
    /// Positions of a thread.
    pub items: u32,
}

impl Sort {
    /// Positions of a block of threads.
    pub fn tile(&self) -> u64 {
        u64::from(self.threads) * u64::from(self.items)
    }

    /// A block of threads for each tile of positions.
    pub fn tiles(&self) -> Count {
        Count::Positions { per: self.tile(), each: 1 }
    }

    /// The number of tiles.
    pub fn count_tiles(&self) -> String {
        let tile = self.tile();
        format!("const rl_u64 tiles = (positions + {}) / {tile};", tile - 1)
    }

    /// Position of an item: a thread has neighbours, so that ranks ascend with positions.
    pub fn neighbours(&self) -> String {
        format!("tile * {} + rl_thread() * {} + item", self.tile(), self.items)
    }

    /// Position of an item where the order within the tile does not matter: threads read neighbours.
    pub fn across(&self) -> String {
        format!("tile * {} + item * {} + rl_thread()", self.tile(), self.threads)
    }

    /// Where pass `pass` puts the order: the last one into the plan's own.
    pub fn target(&self, pass: u32) -> Param {
        let last = self.digits.passes - 1;
        if (last - pass).is_multiple_of(2) { array(PlanArray::Order) } else { Param::Scratch(OTHER_ORDER) }
    }

    /// What an entry of a pass reads: rows, and the order so far.
    pub fn sources(&self, pass: u32) -> Vec<Param> {
        let before = pass.checked_sub(1).map(|before| self.target(before));
        [array(PlanArray::Rows)].into_iter().chain(before).collect()
    }

    /// The arrays that [`Sort::ordered`] fills.
    pub fn arrays(&self) -> String {
        format!("rl_u32 from[{0}], digits[{0}];", self.items)
    }

    /// `from[item]` and `digits[item]`: positions in the order so far, and their digits.
    pub fn ordered(&self, writer: &mut Writer, pass: u32, at: &str) {
        writer.block(self.each_item(), |writer| {
            writer.line(format!("const rl_u64 at = {at};"));
            writer.line(format!("digits[item] = {};", self.digits.values));
            writer.line("if (at >= positions) continue;");
            writer.line(match pass.checked_sub(1) {
                Some(before) => format!("from[item] = rl_load<rl_u32>({} + at);", name(self.target(before))),
                None => "from[item] = static_cast<rl_u32>(at);".to_owned(),
            });
            writer.line("const rl_u32 row = rl_load<rl_u32>(rows + from[item]);");
            writer.line(format!("digits[item] = {};", self.digits.digit("row", pass)));
        });
    }

    /// The head of the loop over the positions of a thread.
    pub fn each_item(&self) -> String {
        format!("RL_UNROLL for (int item = 0; item < {}; ++item)", self.items)
    }
}

/// The name of an order.
pub(super) fn name(order: Param) -> &'static str {
    if order == array(PlanArray::Order) { "order" } else { "other_order" }
}
