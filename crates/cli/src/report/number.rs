//! Numbers of a report that need not be finite.

use serde::{Serialize, Serializer};
use serde_json::Value;

/// In JSON a number, or where JSON has none a word: `NaN`, `inf`. Null is what was not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Number(pub f64);

/// What JSON has no number for.
const WORDS: [(&str, f64); 3] = [("NaN", f64::NAN), ("inf", f64::INFINITY), ("-inf", f64::NEG_INFINITY)];

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_finite() { serializer.serialize_f64(self.0) } else { serializer.collect_str(&self.0) }
    }
}

impl Number {
    /// Of a report; `None` where nothing was measured.
    pub fn read(value: &Value) -> Option<f64> {
        let word = |word: &str| WORDS.iter().find(|(name, _)| *name == word).map(|(_, number)| *number);
        value.as_f64().or_else(|| word(value.as_str()?))
    }

    /// The largest of those that were measured; NaN where one is NaN.
    pub fn largest(values: impl Iterator<Item = f64>) -> Option<f64> {
        // `f64::max` would swallow a NaN.
        values.reduce(|left, right| if left.is_nan() || left > right { left } else { right })
    }
}

impl From<Number> for Value {
    fn from(number: Number) -> Value {
        serde_json::Number::from_f64(number.0).map_or_else(|| Value::String(number.0.to_string()), Value::Number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_back() {
        for number in [0.0, 0.0025, 1e300, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            let written = serde_json::to_string(&Number(number)).expect("JSON");
            let value: Value = serde_json::from_str(&written).expect("JSON");
            assert_eq!(value, Value::from(Number(number)));
            let read = Number::read(&value).unwrap_or_else(|| panic!("{number}: {written}"));
            assert!(read == number || read.is_nan() && number.is_nan(), "{number}: {written}");
        }
        assert_eq!(Number::read(&Value::Null), None);
        assert_eq!(Number::read(&"x".into()), None);
    }

    #[test]
    fn a_nan_is_the_largest_wherever_it_stands() {
        for at in 0..3 {
            let mut numbers = [1.0, f64::INFINITY, 3.0];
            assert_eq!(Number::largest(numbers.into_iter()), Some(f64::INFINITY));
            numbers[at] = f64::NAN;
            assert!(Number::largest(numbers.into_iter()).is_some_and(f64::is_nan), "{at}");
        }
        assert_eq!(Number::largest(std::iter::empty()), None);
    }
}
