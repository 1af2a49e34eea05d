//! What is known of a candidate while a search goes on.

use super::bench::Candidate;
use super::decide::median;
use crate::tuning::journal::{Journal, Known};
use crate::tuning::record::Outcome;

/// What is known of a candidate.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Status {
    Illegal(String),
    /// Nothing yet.
    Legal,
    Compiled,
    Equal,
    Differs(String),
    NotCompiled(String),
    /// It did not run to its end.
    Failed(String),
}

impl Status {
    /// What an interrupted search has left.
    pub(super) fn known(candidate: &Candidate, journal: &Journal) -> Status {
        match &candidate.source {
            Err(reason) => Status::Illegal(reason.clone()),
            Ok(source) => match journal.known(source) {
                None => Status::Legal,
                Some(Known::Compiled) => Status::Compiled,
                Some(Known::Equal) => Status::Equal,
                Some(Known::Differs(place)) => Status::Differs(place.clone()),
                Some(Known::Failed(reason)) => Status::Failed(reason.clone()),
            },
        }
    }

    /// What becomes of it in the record, after these times.
    pub(super) fn outcome(&self, times: &[(usize, f64)]) -> Outcome {
        let untried = |what: &str| Outcome::Failed { failed: format!("not {what}: the budget had run out") };
        match self {
            Status::Illegal(reason) => Outcome::Illegal { illegal: reason.clone() },
            Status::Legal => untried("compiled"),
            Status::Compiled => untried("compared with the default"),
            Status::Differs(place) => Outcome::Differs { bit_equal: false, differs: place.clone() },
            Status::NotCompiled(reason) | Status::Failed(reason) => Outcome::Failed { failed: reason.clone() },
            Status::Equal if times.is_empty() => untried("timed"),
            Status::Equal => {
                let rounds = times.len() as u32;
                Outcome::Timed { us: median(times.iter().map(|&(_, us)| us)), rounds, bit_equal: true }
            }
        }
    }

    /// Writes down what was learnt.
    pub(super) fn note(&self, journal: &mut Journal, candidate: &Candidate) {
        let known = match self {
            Status::Illegal(_) | Status::Legal => return,
            Status::Compiled => Known::Compiled,
            Status::Equal => Known::Equal,
            Status::Differs(place) => Known::Differs(place.clone()),
            Status::NotCompiled(reason) => Known::Failed(reason.clone()),
            Status::Failed(reason) => {
                if let Ok(source) = &candidate.source {
                    journal.fail(source, &candidate.schedule.to_string(), reason);
                }
                return;
            }
        };
        if let Ok(source) = &candidate.source {
            journal.learn(source, &candidate.schedule.to_string(), known);
        }
    }
}
