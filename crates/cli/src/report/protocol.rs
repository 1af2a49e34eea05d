//! The published protocol: which batches, which seeds, what is compared.

use serde::Serialize;

/// Everything that decides what a report measures, and that it records.
#[derive(Clone, Debug, Serialize)]
pub struct Protocol {
    /// Batches of which each position is run alone.
    pub all_rows: Vec<u64>,
    /// Seeds of those and of the sweep.
    pub seeds: Vec<u64>,
    /// Positions of the batch that is cut into sub-batches.
    pub full_batch: u64,
    /// Sizes of its sub-batches.
    pub sub_batch_sizes: Vec<u64>,
    /// Seeds of the full batch.
    pub full_batch_seeds: Vec<u64>,
    /// Positions of the batch that the sweep takes its probes from.
    pub sweep_batch: u64,
    /// Sizes of the sweep.
    pub batch_sizes: Vec<u64>,
    /// S of accuracy and latency.
    pub positions: Vec<u64>,
    /// Seed of their layout, of the table and of normal gradients.
    pub layout_seed: u64,
    /// Runs before the first timed one.
    pub warm_up: usize,
    /// Timed runs, of which the median is reported.
    pub timed_runs: usize,
    /// Runs at the largest S whose table gradients are compared.
    pub repeats: usize,
}

/// Sizes of the published sweep.
const BATCH_SIZES: [u64; 32] = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512, 513, 1023,
    1024, 1025, 2047, 2048,
];

/// Most sub-batches of one small size.
const STARTS: u64 = 512;

/// Sizes from which on sub-batches lie side by side.
const LARGE: u64 = 1024;

impl Protocol {
    /// As published.
    pub fn published(positions: Vec<u64>) -> Protocol {
        Protocol {
            all_rows: vec![64, 257, 2048],
            seeds: vec![3, 4, 5],
            full_batch: 131_072,
            sub_batch_sizes: vec![1, 7, 4097, 32768, 65536],
            full_batch_seeds: vec![3, 4],
            sweep_batch: 2048,
            batch_sizes: BATCH_SIZES.to_vec(),
            positions,
            layout_seed: 11,
            warm_up: 20,
            timed_runs: 100,
            repeats: 100,
        }
    }

    /// The same checks on small batches.
    pub fn quick(positions: Vec<u64>) -> Protocol {
        let sweep_batch = 64;
        Protocol {
            all_rows: vec![17, 64],
            full_batch: 256,
            sub_batch_sizes: vec![1, 7, 64],
            sweep_batch,
            batch_sizes: BATCH_SIZES.into_iter().filter(|&size| size <= sweep_batch).collect(),
            warm_up: 3,
            timed_runs: 20,
            ..Protocol::published(positions)
        }
    }

    /// Positions of the sweep's batch that are looked at.
    pub fn probe_rows(&self) -> Vec<u64> {
        let n = self.sweep_batch;
        let inner = (0..6).map(|k| n / 8 + 3 + k * n / 8);
        std::iter::once(0).chain(inner).chain([n - 1]).collect()
    }

    /// Where in a batch of `size` a probe is put.
    pub fn placements(size: u64) -> Vec<u64> {
        let mut placements = vec![0, (size - 1) / 2, size - 1];
        placements.dedup();
        placements
    }

    /// Where the sub-batches of `size` begin; the last one may be cut short.
    pub fn starts(&self, size: u64) -> impl Iterator<Item = u64> {
        let step = if size < LARGE { size.max(self.full_batch / STARTS) } else { size };
        (0..self.full_batch).step_by(step as usize)
    }

    /// Sub-batches of all sizes and seeds.
    pub fn sub_batches(&self) -> u64 {
        let of_a_seed: usize = self.sub_batch_sizes.iter().map(|&size| self.starts(size).count()).sum();
        (of_a_seed * self.full_batch_seeds.len()) as u64
    }

    /// Comparisons of the sweep: every probe at every placement in every size, and in the batch reversed.
    pub fn comparisons(&self) -> u64 {
        let placements: usize = self.batch_sizes.iter().map(|&size| Protocol::placements(size).len()).sum();
        (self.seeds.len() * self.probe_rows().len() * (placements + 1)) as u64
    }

    /// S of the repeats.
    pub fn largest(&self) -> u64 {
        self.positions.iter().copied().max().unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_counts() {
        let protocol = Protocol::published(vec![4097, 32768]);
        assert_eq!(protocol.sub_batches(), 2 * 1062);
        assert_eq!(protocol.comparisons(), 2256);
        assert_eq!(protocol.probe_rows(), [0, 259, 515, 771, 1027, 1283, 1539, 2047]);
        assert_eq!(protocol.batch_sizes.len(), 32);
        let rows = protocol.all_rows.iter().map(|batch| batch * protocol.seeds.len() as u64);
        assert_eq!(rows.collect::<Vec<_>>(), [192, 771, 6144]);
    }

    #[test]
    fn quick_counts() {
        let protocol = Protocol::quick(vec![257, 4097]);
        assert_eq!(protocol.sub_batches(), 2 * 297);
        assert_eq!(protocol.comparisons(), 1176);
        assert_eq!(protocol.probe_rows(), [0, 11, 19, 27, 35, 43, 51, 63]);
        assert_eq!(protocol.batch_sizes.len(), 17);
    }

    #[test]
    fn placements_are_first_middle_and_last_without_repeats() {
        assert_eq!(Protocol::placements(1), [0]);
        assert_eq!(Protocol::placements(2), [0, 1]);
        assert_eq!(Protocol::placements(3), [0, 1, 2]);
        assert_eq!(Protocol::placements(2048), [0, 1023, 2047]);
    }

    #[test]
    fn small_sub_batches_are_spread_and_large_ones_lie_side_by_side() {
        let protocol = Protocol::published(vec![4097]);
        let starts = |size| protocol.starts(size).collect::<Vec<_>>();
        assert_eq!(starts(7).len(), 512);
        assert_eq!(starts(7)[1], 256);
        assert_eq!(starts(4097).len(), 32);
        assert_eq!(starts(65536), [0, 65536]);
    }
}
