//! How a video is packed: for each position a timestep index and a modality tag.
//!
//! A layout is either random at each position or a list of runs. Named videos
//! have a length of their own; any other S gets the same runs in proportion.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use rand::RngExt;

use crate::random;

/// Modality tags.
pub const MODALITIES: u64 = 3;
const VIDEO: i64 = 0;
const TEXT: i64 = 1;
const AUDIO: i64 = 2;

/// Timestep index and modality tag of each position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Indices {
    /// (S,), each in 0..T.
    pub timestep: Vec<i64>,
    /// (S,), each in 0..3.
    pub modality: Vec<i64>,
}

/// A packing, or one of the contiguous pieces into which ranks cut it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// The whole.
    pub packing: Packing,
    /// Which piece, from 1, of how many.
    pub shard: Option<(u64, u64)>,
}

/// A whole packed sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Packing {
    /// Timestep and tag uniformly random at each position: the published one.
    Interleaved,
    /// T contiguous runs, each text 1/20, video the rest, audio 3/20.
    Block,
    /// Text to video and audio, 4 s.
    T2va4s,
    /// Text to video and audio, 15 s: one row holds 98 %, most hold nothing.
    T2va15s,
    /// First and last frame to video and audio.
    Fl2va,
    /// Reference video and audio to video and audio.
    Ref2va,
}

/// `(timestep, modality, positions)` of each run of a named video.
type Runs = &'static [(i64, i64, u64)];

impl Packing {
    /// Every packing, the published one first.
    pub const ALL: [Packing; 6] =
        [Packing::Interleaved, Packing::Block, Packing::T2va4s, Packing::T2va15s, Packing::Fl2va, Packing::Ref2va];

    /// Its name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Packing::Interleaved => "interleaved",
            Packing::Block => "block",
            Packing::T2va4s => "t2va-4s",
            Packing::T2va15s => "t2va-15s",
            Packing::Fl2va => "fl2va",
            Packing::Ref2va => "ref2va",
        }
    }

    fn runs(self) -> Option<Runs> {
        match self {
            Packing::Interleaved | Packing::Block => None,
            Packing::T2va4s => Some(&[(0, TEXT, 886), (1, AUDIO, 330), (0, VIDEO, 32256)]),
            Packing::T2va15s => Some(&[(0, TEXT, 890), (1, AUDIO, 1206), (0, VIDEO, 107_856)]),
            Packing::Fl2va => Some(&[(0, TEXT, 870), (2, VIDEO, 2016), (1, AUDIO, 804), (0, VIDEO, 72576)]),
            Packing::Ref2va => {
                Some(&[(0, TEXT, 870), (2, AUDIO, 804), (2, VIDEO, 72576), (1, AUDIO, 804), (0, VIDEO, 72576)])
            }
        }
    }

    /// Positions of the video itself; `None` where any S is as good as another.
    pub fn positions(self) -> Option<u64> {
        self.runs().map(|runs| runs.iter().map(|run| run.2).sum())
    }

    /// `positions` positions of it, the timesteps reduced to `0..timesteps`.
    pub fn indices(self, positions: u64, timesteps: u64, seed: u64) -> Indices {
        self.piece(positions, 0..positions, timesteps, seed)
    }

    /// Positions `piece` of `positions`. Of the others nothing is kept.
    fn piece(self, positions: u64, piece: Range<u64>, timesteps: u64, seed: u64) -> Indices {
        let runs = match self {
            Packing::Interleaved => return interleaved(positions, piece, timesteps, seed),
            Packing::Block => block(timesteps),
            Packing::T2va4s | Packing::T2va15s | Packing::Fl2va | Packing::Ref2va => {
                self.runs().unwrap_or_default().to_vec()
            }
        };
        let total: u64 = runs.iter().map(|run| run.2).sum();
        let mut indices = Indices { timestep: Vec::new(), modality: Vec::new() };
        let mut done = 0;
        for (timestep, modality, length) in runs {
            done += length;
            // Ends are rounded, not lengths: the runs always add up to S.
            let end = (u128::from(positions) * u128::from(done) / u128::from(total)) as u64;
            let end = (end.clamp(piece.start, piece.end) - piece.start) as usize;
            indices.timestep.resize(end, timestep % timesteps as i64);
            indices.modality.resize(end, modality);
        }
        indices
    }
}

fn interleaved(positions: u64, piece: Range<u64>, timesteps: u64, seed: u64) -> Indices {
    let mut generator = random::generator(seed, random::LAYOUT);
    let mut draw = |bound: u64| {
        let mut kept = Vec::with_capacity((piece.end - piece.start) as usize);
        // Every position is drawn, for the number of the next one depends on it.
        for position in 0..positions {
            let number = generator.random_range(0..bound) as i64;
            if piece.contains(&position) {
                kept.push(number);
            }
        }
        kept
    };
    Indices { timestep: draw(timesteps), modality: draw(MODALITIES) }
}

/// Runs in twentieths of a timestep.
fn block(timesteps: u64) -> Vec<(i64, i64, u64)> {
    (0..timesteps as i64)
        .flat_map(|timestep| [(timestep, TEXT, 1), (timestep, VIDEO, 16), (timestep, AUDIO, 3)])
        .collect()
}

impl Layout {
    /// The published layout.
    pub const INTERLEAVED: Layout = Layout { packing: Packing::Interleaved, shard: None };

    /// `positions` positions of it, each timestep in `0..timesteps`. A shard is cut
    /// from a whole that is as many times longer.
    pub fn indices(self, positions: u64, timesteps: u64, seed: u64) -> Indices {
        let (piece, pieces) = self.shard.unwrap_or((1, 1));
        self.packing.piece(positions * pieces, positions * (piece - 1)..positions * piece, timesteps, seed)
    }

    /// Positions of the video itself, or of this piece of it.
    pub fn positions(self) -> Option<u64> {
        let pieces = self.shard.map_or(1, |(_, pieces)| pieces);
        self.packing.positions().map(|positions| positions / pieces)
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.packing.name())?;
        match self.shard {
            Some((piece, pieces)) => write!(f, ":{piece}/{pieces}"),
            None => Ok(()),
        }
    }
}

/// A word that names no layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownLayout {
    word: String,
}

impl fmt::Display for UnknownLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Packing::ALL.map(Packing::name).join(", ");
        write!(f, "`{}` is no layout; write one of {names}, or a piece of one such as ref2va:3/8", self.word)
    }
}

impl std::error::Error for UnknownLayout {}

impl FromStr for Layout {
    type Err = UnknownLayout;

    fn from_str(word: &str) -> Result<Layout, UnknownLayout> {
        parse(word).ok_or_else(|| UnknownLayout { word: word.to_owned() })
    }
}

fn parse(word: &str) -> Option<Layout> {
    let (name, shard) = match word.split_once(':') {
        Some((name, shard)) => (name, Some(shard)),
        None => (word, None),
    };
    let packing = Packing::ALL.into_iter().find(|packing| packing.name() == name)?;
    let shard = match shard {
        None => None,
        Some(shard) => {
            let (piece, pieces) = shard.split_once('/')?;
            let (piece, pieces) = (piece.parse().ok()?, pieces.parse().ok()?);
            // Every position of an interleaved whole is drawn.
            if pieces > 64 || !(1..=pieces).contains(&piece) {
                return None;
            }
            Some((piece, pieces))
        }
    };
    Some(Layout { packing, shard })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(layout: &str, positions: u64) -> Vec<usize> {
        let layout: Layout = layout.parse().expect("a layout");
        let indices = layout.indices(positions, 3, 11);
        assert_eq!(indices.timestep.len() as u64, positions, "{layout}");
        assert_eq!(indices.modality.len() as u64, positions, "{layout}");
        let mut counts = vec![0; 9];
        for (timestep, modality) in indices.timestep.iter().zip(&indices.modality) {
            assert!((0..3).contains(timestep) && (0..3).contains(modality));
            counts[(timestep * 3 + modality) as usize] += 1;
        }
        counts
    }

    #[test]
    fn named_videos_have_their_own_lengths_and_runs() {
        let lengths = Packing::ALL.map(Packing::positions);
        assert_eq!(lengths, [None, None, Some(33472), Some(109_952), Some(76266), Some(147_630)]);
        assert_eq!(counts("t2va-4s", 33472), [32256, 886, 0, 0, 0, 330, 0, 0, 0]);
        assert_eq!(counts("t2va-15s", 109_952), [107_856, 890, 0, 0, 0, 1206, 0, 0, 0]);
        assert_eq!(counts("fl2va", 76266), [72576, 870, 0, 0, 0, 804, 2016, 0, 0]);
        assert_eq!(counts("ref2va", 147_630), [72576, 870, 0, 0, 0, 804, 72576, 0, 804]);
    }

    #[test]
    fn runs_come_in_their_order() {
        let indices = Packing::Fl2va.indices(76266, 3, 0);
        let at = |position: usize| (indices.timestep[position], indices.modality[position]);
        assert_eq!((at(0), at(869)), ((0, TEXT), (0, TEXT)));
        assert_eq!((at(870), at(2885)), ((2, VIDEO), (2, VIDEO)));
        assert_eq!((at(2886), at(3690)), ((1, AUDIO), (0, VIDEO)));
    }

    #[test]
    fn block_is_text_then_video_then_audio_in_each_timestep() {
        assert_eq!(counts("block", 60), [16, 1, 3, 16, 1, 3, 16, 1, 3]);
        assert_eq!(counts("block", 4097).iter().sum::<usize>(), 4097);
    }

    #[test]
    fn interleaved_is_even_and_depends_on_the_seed_alone() {
        assert!(counts("interleaved", 90_000).iter().all(|count| (9_500..10_500).contains(count)));
        let draw = |seed| Layout::INTERLEAVED.indices(100, 3, seed);
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
    }

    #[test]
    fn shards_are_the_pieces_of_the_whole_in_order() {
        for packing in Packing::ALL {
            let whole = packing.indices(1000, 3, 11);
            let piece = |piece| Layout { packing, shard: Some((piece, 8)) }.indices(125, 3, 11);
            let pieces: Vec<Indices> = (1..=8).map(piece).collect();
            assert_eq!(pieces.iter().flat_map(|piece| &piece.timestep).copied().collect::<Vec<_>>(), whole.timestep);
            assert_eq!(pieces.iter().flat_map(|piece| &piece.modality).copied().collect::<Vec<_>>(), whole.modality);
            assert!(pieces.iter().all(|piece| piece.timestep.capacity() <= 256), "more than the piece was kept");
        }
    }

    #[test]
    fn every_toy_size_works() {
        for positions in [1, 2, 3, 257, 832] {
            for packing in Packing::ALL {
                counts(packing.name(), positions);
            }
        }
    }

    #[test]
    fn names_round_trip_and_others_list_the_choices() {
        for name in ["interleaved", "block", "t2va-4s", "t2va-15s", "fl2va", "ref2va", "ref2va:3/8"] {
            assert_eq!(name.parse::<Layout>().expect(name).to_string(), name);
        }
        for name in ["", "blok", "ref2va:0/8", "ref2va:9/8", "ref2va:1", "ref2va:/", "block:1/65"] {
            let error = name.parse::<Layout>().expect_err(name).to_string();
            assert!(error.contains("interleaved, block, t2va-4s"), "{error}");
        }
    }
}
