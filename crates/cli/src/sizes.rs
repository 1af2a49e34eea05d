//! S and H as the command line writes them.

use std::num::IntErrorKind;

/// S of one call.
pub fn positions(word: &str) -> Result<u64, String> {
    number(word, "positions", "32768", u32::MAX.into())
}

/// H, columns of a chunk.
pub fn hidden(word: &str) -> Result<u64, String> {
    number(word, "columns", "5376", u64::MAX)
}

fn number(word: &str, of: &str, example: &str, most: u64) -> Result<u64, String> {
    let too_many = || format!("the limit is {most} {of}");
    match word.parse() {
        Ok(0) => Err(format!("the number of {of} must be at least 1")),
        Ok(number) if number > most => Err(too_many()),
        Ok(number) => Ok(number),
        Err(error) if *error.kind() == IntErrorKind::PosOverflow => Err(too_many()),
        Err(_) => Err(format!("`{word}` is no number of {of}; write {example}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_within_their_limits() {
        assert_eq!(positions("4294967295"), Ok(4_294_967_295));
        assert_eq!(positions("4294967296"), Err("the limit is 4294967295 positions".to_owned()));
        assert_eq!(positions("0"), Err("the number of positions must be at least 1".to_owned()));
        assert_eq!(positions("-1"), Err("`-1` is no number of positions; write 32768".to_owned()));
        assert_eq!(hidden("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(hidden("18446744073709551616"), Err("the limit is 18446744073709551615 columns".to_owned()));
        assert_eq!(hidden("wide"), Err("`wide` is no number of columns; write 5376".to_owned()));
    }
}
