//! A bench that has no device: its times are made up, with noise and drift.

use std::cell::Cell;
use std::collections::HashMap;

use rowloom_codegen::schedule::{PositionsKind, PositionsSchedule};
use rowloom_codegen::{Choice, Schedule};

use super::*;

/// What a made-up candidate does.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Way {
    /// It takes so long, in microseconds.
    Us(f64),
    Illegal,
    NotCompiled,
    Lies,
    Hangs,
    /// It passes the gate, and then hangs.
    HangsLater,
    /// It passes the gate, and then runs until the budget is out.
    LateLater,
    /// It takes so long, and lies from the second comparison on.
    LiesLater(f64),
}

pub(super) struct Fake {
    pub(super) ways: Vec<Way>,
    /// Standard deviation of a time, as a share of it.
    pub(super) noise: f64,
    /// Share by which the machine becomes slower, each time that something is timed.
    pub(super) drift: f64,
    /// Times that are twice as long, of a hundred.
    pub(super) spikes: u64,
    pub(super) random: u64,
    pub(super) clock: Cell<Duration>,
    pub(super) timed: HashMap<usize, u32>,
    pub(super) gated: Vec<usize>,
    pub(super) compiled: Vec<usize>,
    /// The order of what was timed.
    pub(super) order: Vec<usize>,
}

impl Fake {
    pub(super) fn new(seed: u64, ways: Vec<Way>) -> Fake {
        let random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        Fake {
            ways,
            noise: 0.0,
            drift: 0.0,
            spikes: 0,
            random,
            clock: Cell::default(),
            timed: HashMap::new(),
            gated: Vec::new(),
            compiled: Vec::new(),
            order: Vec::new(),
        }
    }

    pub(super) fn noisy(seed: u64, ways: Vec<Way>) -> Fake {
        Fake { noise: 0.02, drift: 0.0003, spikes: 4, ..Fake::new(seed, ways) }
    }

    pub(super) fn uniform(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(super) fn candidates(&self) -> Vec<Candidate> {
        let candidate = |(at, way): (usize, &Way)| Candidate {
            schedule: schedule(at),
            source: if *way == Way::Illegal { Err("it is not legal".to_owned()) } else { Ok(format!("source {at}")) },
        };
        self.ways.iter().enumerate().map(candidate).collect()
    }

    pub(super) fn search(&mut self, budget: f64, journal: &mut Journal) -> Result<Found, Stopped<String>> {
        let candidates = self.candidates();
        search(&candidates, 0, self, Duration::from_secs_f64(budget), journal, &mut |_| {})
    }

    pub(super) fn found(&mut self) -> Found {
        self.search(3600.0, &mut Journal::in_memory()).expect("found")
    }

    pub(super) fn spend(&self, seconds: f64) {
        self.clock.set(self.clock.get() + Duration::from_secs_f64(seconds));
    }
}

pub(super) fn schedule(at: usize) -> Choice {
    let part = PositionsSchedule {
        kind: PositionsKind::Position,
        threads: 32 * (at as u32 + 1),
        positions: 1,
        resident: 1,
        persistent: false,
        streaming: false,
    };
    Choice::Kernel(Schedule { positions: Some(part), segments: None })
}

impl Bench for Fake {
    type Error = String;

    fn compile(&mut self, candidates: &[usize], each: &mut dyn FnMut(usize, Result<(), String>)) -> Result<(), String> {
        for &at in candidates {
            self.spend(0.1);
            self.compiled.push(at);
            each(at, if self.ways[at] == Way::NotCompiled { Err("no code".to_owned()) } else { Ok(()) });
        }
        Ok(())
    }

    fn gate(&mut self, candidate: usize) -> Result<Gate, String> {
        let before = self.gated.contains(&candidate);
        self.gated.push(candidate);
        self.spend(0.01);
        Ok(match &self.ways[candidate] {
            Way::Lies => Gate::Differs("out[3, 5]".to_owned()),
            Way::Hangs => Gate::Failed("it did not end in 5 s".to_owned()),
            Way::NotCompiled | Way::Illegal => panic!("{candidate} cannot run"),
            Way::LiesLater(_) if before => Gate::Differs("out[9, 9]".to_owned()),
            Way::Us(_) | Way::HangsLater | Way::LateLater | Way::LiesLater(_) => Gate::Equal,
        })
    }

    fn time(&mut self, candidate: usize) -> Result<Time, String> {
        assert!(self.gated.contains(&candidate), "{candidate} is timed before it is compared");
        self.order.push(candidate);
        *self.timed.entry(candidate).or_default() += 1;
        let (Way::Us(us) | Way::LiesLater(us)) = self.ways[candidate] else {
            if self.ways[candidate] == Way::LateLater {
                return Ok(Time::Late);
            }
            assert_eq!(self.ways[candidate], Way::HangsLater, "{candidate}");
            return Ok(Time::Failed("it did not end in 5 s".to_owned()));
        };
        self.spend(0.01);
        let steps: u32 = self.timed.values().sum();
        // The sum of twelve is as good as normal.
        let normal: f64 = (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0;
        let spike = if self.uniform() * 100.0 < self.spikes as f64 { 2.0 } else { 1.0 };
        Ok(Time::Us(us * (1.0 + self.noise * normal) * spike * (1.0 + self.drift * f64::from(steps))))
    }

    fn now(&self) -> Duration {
        self.clock.get()
    }
}
