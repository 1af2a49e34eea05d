//! Kernels as the command line names them.

use std::str::FromStr;

use rowloom_codegen::Verified;
use rowloom_runtime::{Registered, registered};

use crate::error::{Error, Result};

/// The registered kernel of this name.
pub fn find(name: &str) -> Result<&'static Registered> {
    registered().find(|kernel| kernel.name == name).ok_or_else(|| {
        let names: Vec<&str> = registered().map(|kernel| kernel.name).collect();
        Error::usage(unknown(name, &names))
    })
}

fn unknown(name: &str, names: &[&str]) -> String {
    let rank = |known: &str| {
        // Part of a name is as good as a slip.
        let part = name.len() >= 3 && known.contains(name);
        let distance = distance(name, known);
        (part || distance <= known.len().max(name.len()) / 2).then_some((!part, distance))
    };
    let mut near: Vec<_> = names.iter().filter_map(|known| rank(known).map(|rank| (rank, *known))).collect();
    near.sort_unstable();
    let likely = near.iter();
    let likely: Vec<String> = likely.take(3).map(|(_, known)| format!("`{known}`")).collect();
    if !likely.is_empty() {
        return format!("there is no kernel `{name}`; did you mean {}?", likely.join(" or "));
    }
    match names {
        [] => format!("there is no kernel `{name}`: this program declares none; name a kernel crate in it"),
        names => format!("there is no kernel `{name}`; write one of {}", names.join(", ")),
    }
}

/// Letters to insert, remove or replace to make one word of the other.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut previous: Vec<usize> = (0..=right.len()).collect();
    for (done, left) in left.chars().enumerate() {
        let mut current = vec![done + 1];
        for (at, right) in right.iter().enumerate() {
            let replace = previous[at] + usize::from(left != *right);
            current.push(replace.min(previous[at + 1] + 1).min(current[at] + 1));
        }
        previous = current;
    }
    previous[right.len()]
}

/// A row count on the command line: `9` for all of them, `R=9` for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowCount {
    name: Option<String>,
    rows: u64,
}

impl FromStr for RowCount {
    type Err = String;

    fn from_str(word: &str) -> std::result::Result<RowCount, String> {
        let (name, digits) = match word.split_once('=') {
            Some((name, digits)) => (Some(name.to_owned()), digits),
            None => (None, word),
        };
        let rows = digits.parse().map_err(|_| format!("`{digits}` is no number of rows; write 9, or R=9"))?;
        Ok(RowCount { name, rows })
    }
}

/// The value of each row count of a kernel.
pub fn counts(kernel: &Verified, given: &[RowCount]) -> Result<Vec<u64>> {
    for name in given.iter().filter_map(|given| given.name.as_deref()) {
        if !kernel.counts.iter().any(|count| count == name) {
            let counts = kernel.counts.join(", ");
            return Err(Error::usage(format!("{} has no row count `{name}`; it has {counts}", kernel.name)));
        }
    }
    for (at, RowCount { name, rows }) in given.iter().enumerate() {
        if let Some(before) = given[..at].iter().find(|before| before.name == *name) {
            let (name, what) = match name {
                Some(name) => (format!("{name}="), name.as_str()),
                None => (String::new(), "all row counts"),
            };
            let before = before.rows;
            return Err(Error::usage(format!("--rows has {name}{before} and {name}{rows}; give {what} one number")));
        }
    }
    let value = |count: &String| {
        // What names this count wins over what speaks of all.
        let named = given.iter().find(|given| given.name.as_ref() == Some(count));
        let given = named.or_else(|| given.iter().find(|given| given.name.is_none()));
        given.map(|given| given.rows).ok_or_else(|| {
            Error::usage(format!("{} needs a value for {count}; add --rows {count}=NUMBER", kernel.name))
        })
    };
    kernel.counts.iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_keyboard_is_understood() {
        let names = ["adaln_row_gather", "row_gather", "row_scatter_sum"];
        assert_eq!(
            unknown("adaln_row_gahter", &names),
            "there is no kernel `adaln_row_gahter`; did you mean `adaln_row_gather` or `row_gather`?"
        );
        assert_eq!(unknown("adaln", &names), "there is no kernel `adaln`; did you mean `adaln_row_gather`?");
        assert_eq!(
            unknown("x", &names),
            "there is no kernel `x`; write one of adaln_row_gather, row_gather, row_scatter_sum"
        );
        assert!(unknown("x", &[]).contains("declares none"));
    }

    #[test]
    fn distances() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("same", "same"), 0);
    }

    #[test]
    fn row_counts_are_numbers_with_or_without_a_name() {
        assert_eq!("9".parse(), Ok(RowCount { name: None, rows: 9 }));
        assert_eq!("N=4".parse(), Ok(RowCount { name: Some("N".to_owned()), rows: 4 }));
        assert_eq!("N=x".parse::<RowCount>(), Err("`x` is no number of rows; write 9, or R=9".to_owned()));
    }
}
