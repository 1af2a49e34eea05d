//! The declared narrowing of the schedule space.

use super::{PositionsKind, PositionsSchedule, SegmentsKind, SegmentsSchedule};

/// A declared narrowing: for each named field of the schedule, the values allowed.
/// A field narrows every part of the schedule that has it; a kind, its own part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tile {
    /// Field name and its allowed values as words, in declaration order.
    pub fields: Vec<(String, Vec<String>)>,
}

/// Why a tile means nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileFault {
    /// Which field, by its place in [`Tile::fields`].
    pub field: usize,
    /// Which of its values; `None` for the field itself.
    pub value: Option<usize>,
    /// What is wrong and what to write instead.
    pub message: String,
}

impl Tile {
    /// Whether every field exists, stands once, and has only values that some schedule may take.
    pub fn check(&self) -> Result<(), Vec<TileFault>> {
        let mut faults = Vec::new();
        for (at, (field, values)) in self.fields.iter().enumerate() {
            let mut fault = |value, message| faults.push(TileFault { field: at, value, message });
            let Some(legal) = legal_values(field) else {
                fault(None, format!("`{field}` is no part of a schedule; write one of {}", keys().join(", ")));
                continue;
            };
            if self.fields[..at].iter().any(|(earlier, _)| earlier == field) {
                fault(None, format!("`{field}` stands twice; write all its values in one list"));
            }
            if values.is_empty() {
                fault(None, format!("`{field}` allows no value; write {}", legal.help()));
            }
            for (place, value) in values.iter().enumerate() {
                if !legal.allows(value) {
                    fault(Some(place), format!("`{value}` is no value of `{field}`; write {}", legal.help()));
                }
            }
        }
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    pub(super) fn allows_positions(&self, part: &PositionsSchedule) -> bool {
        let kinds = PositionsKind::ALL.map(PositionsKind::name);
        self.allows_kind(part.kind.name(), &kinds)
            && self.allows("threads", &part.threads.to_string())
            && self.allows("positions", &part.positions.to_string())
            && self.allows("resident", &part.resident.to_string())
            && self.allows("persistent", &part.persistent.to_string())
            && self.allows("streaming", &part.streaming.to_string())
    }

    pub(super) fn allows_segments(&self, part: &SegmentsSchedule) -> bool {
        let kinds = SegmentsKind::ALL.map(SegmentsKind::name);
        self.allows_kind(part.kind.name(), &kinds)
            && self.allows("threads", &part.threads.to_string())
            && self.allows("columns", &part.columns.to_string())
            && self.allows("unroll", &part.unroll.to_string())
            && self.allows("run", &part.run.to_string())
            && self.allows("resident", &part.resident.to_string())
            && self.allows("streaming", &part.streaming.to_string())
    }

    pub(super) fn values(&self, field: &str) -> Option<&[String]> {
        self.fields.iter().find(|(name, _)| name == field).map(|(_, values)| values.as_slice())
    }

    fn allows(&self, field: &str, word: &str) -> bool {
        self.values(field).is_none_or(|values| values.iter().any(|value| value == word))
    }

    /// A list of kinds that names none of this part leaves this part free.
    fn allows_kind(&self, word: &str, kinds: &[&str]) -> bool {
        let values = self.values("kind").unwrap_or_default();
        let own: Vec<&String> = values.iter().filter(|value| kinds.contains(&value.as_str())).collect();
        own.is_empty() || own.iter().any(|value| *value == word)
    }
}

fn keys() -> Vec<&'static str> {
    let mut keys: Vec<&str> = PositionsSchedule::KEYS.into_iter().chain(SegmentsSchedule::KEYS).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

enum Legal {
    Words(Vec<&'static str>),
    Threads,
    PowerOfTwo(u32),
    UpTo(u32),
}

fn legal_values(field: &str) -> Option<Legal> {
    match field {
        "kind" => {
            let positions = PositionsKind::ALL.map(PositionsKind::name);
            Some(Legal::Words(positions.into_iter().chain(SegmentsKind::ALL.map(SegmentsKind::name)).collect()))
        }
        "threads" => Some(Legal::Threads),
        "persistent" | "streaming" => Some(Legal::Words(vec!["true", "false"])),
        "run" => Some(Legal::PowerOfTwo(super::segments::MAX_RUN)),
        "resident" => Some(Legal::UpTo(crate::cuda::MOST_BLOCKS)),
        "positions" => Some(Legal::PowerOfTwo(super::positions::MAX_POSITIONS)),
        "columns" => Some(Legal::PowerOfTwo(super::segments::MAX_COLUMNS)),
        "unroll" => Some(Legal::PowerOfTwo(super::segments::MAX_UNROLL)),
        _ => None,
    }
}

impl Legal {
    fn allows(&self, word: &str) -> bool {
        let number = word.parse::<u32>().ok().filter(|number| number.to_string() == word);
        match self {
            Legal::Words(words) => words.contains(&word),
            Legal::Threads => number.is_some_and(super::fault::threads_are_legal),
            Legal::UpTo(most) => number.is_some_and(|number| (1..=*most).contains(&number)),
            Legal::PowerOfTwo(most) => number.is_some_and(|number| number.is_power_of_two() && number <= *most),
        }
    }

    fn help(&self) -> String {
        match self {
            Legal::Words(words) => words.join(", "),
            Legal::Threads => "a multiple of 32 up to 1024".to_owned(),
            Legal::UpTo(most) => format!("a number from 1 to {most}"),
            Legal::PowerOfTwo(most) => format!("a power of two up to {most}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(fields: &[(&str, &[&str])]) -> Vec<String> {
        let fields = fields
            .iter()
            .map(|(name, values)| ((*name).to_owned(), values.iter().map(|value| (*value).to_owned()).collect()));
        let faults = Tile { fields: fields.collect() }.check().err().unwrap_or_default();
        faults.into_iter().map(|fault| fault.message).collect()
    }

    #[test]
    fn legal_fields_pass() {
        assert!(
            check(&[("kind", &["blocks", "position"]), ("threads", &["96", "1024"]), ("unroll", &["8"])]).is_empty()
                && check(&[("positions", &["1", "16"]), ("persistent", &["true"]), ("resident", &["5"])]).is_empty()
        );
    }

    #[test]
    fn every_wrong_word_is_named() {
        assert_eq!(
            check(&[("thread", &["96"])]),
            [
                "`thread` is no part of a schedule; write one of columns, kind, persistent, positions, resident, run, streaming, threads, unroll"
            ]
        );
        assert_eq!(
            check(&[("threads", &["96", "100"])]),
            ["`100` is no value of `threads`; write a multiple of 32 up to 1024"]
        );
        assert_eq!(check(&[("threads", &[])]), ["`threads` allows no value; write a multiple of 32 up to 1024"]);
        assert_eq!(check(&[("columns", &["3"])]), ["`3` is no value of `columns`; write a power of two up to 8"]);
        assert_eq!(
            check(&[("positions", &["16", "32"])]),
            ["`32` is no value of `positions`; write a power of two up to 16"]
        );
        assert_eq!(check(&[("persistent", &["1"])]), ["`1` is no value of `persistent`; write true, false"]);
        assert_eq!(check(&[("resident", &["17"])]), ["`17` is no value of `resident`; write a number from 1 to 16"]);
        assert_eq!(check(&[("kind", &["atomic"])]).len(), 1);
        assert_eq!(check(&[("unroll", &["4"]), ("unroll", &["8"])]).len(), 1);
        assert_eq!(check(&[("threads", &["096"])]).len(), 1);
    }
}
