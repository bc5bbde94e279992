//! The texts of cells as keys, numbers and times.

use sagehost_types::{Key, TimeMs};

use super::config::TimeUnit;
use crate::schema::KeyType;

/// A key: an integer, or the text exactly as it is.
pub(super) fn key(text: &str, key_type: KeyType) -> Result<Key, &'static str> {
    match key_type {
        KeyType::U64 => {
            text.trim().parse().map(Key::Int).map_err(|_| "is no unsigned 64-bit integer (the graph's keys are)")
        }
        KeyType::String if text.is_empty() => Err("is empty: a key is expected"),
        KeyType::String => Ok(Key::from(text)),
    }
}

/// A finite number.
pub(super) fn number(text: &str) -> Result<f32, &'static str> {
    let text = text.trim();
    if text.is_empty() {
        return Err("is empty: a number is expected");
    }
    let value: f32 = text.parse().map_err(|_| "is no number")?;
    if value.is_finite() { Ok(value) } else { Err("is no finite number of 32 bits") }
}

/// A number, or NaN for an empty cell or `nan`.
pub(super) fn feature(text: &str) -> Result<f32, &'static str> {
    let trimmed = text.trim();
    if trimmed.is_empty() || trimmed.eq_ignore_ascii_case("nan") { Ok(f32::NAN) } else { number(trimmed) }
}

/// A time in milliseconds. Decimals are taken exactly; what is finer than a millisecond is cut towards the past.
pub(super) fn time(text: &str, unit: TimeUnit) -> Result<TimeMs, &'static str> {
    const BAD: &str = "is no time: a number of seconds or milliseconds since 1970, as `unit` says";
    const RANGE: &str = "is out of range for a time in milliseconds";
    let text = text.trim();
    let digits: usize = match unit {
        TimeUnit::Seconds => 3,
        TimeUnit::Milliseconds => 0,
    };
    if text.bytes().any(|byte| matches!(byte, b'e' | b'E')) {
        // As other programs write large floats, such as 1.29e9.
        let value: f64 = text.parse().map_err(|_| BAD)?;
        let value = (value * if digits == 3 { 1000.0 } else { 1.0 }).floor();
        return if value.abs() < 9.0e18 { Ok(value as i64) } else { Err(RANGE) };
    }
    let (negative, magnitude) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (whole, fraction) = magnitude.split_once('.').unwrap_or((magnitude, ""));
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !all_digits(whole) || !all_digits(fraction) {
        return Err(BAD);
    }
    let (kept, cut) = fraction.split_at(digits.min(fraction.len()));
    let value: i64 = format!("{whole}{kept:0<digits$}").parse().map_err(|_| RANGE)?;
    let rest = cut.bytes().any(|byte| byte != b'0');
    if negative { (-value).checked_sub(i64::from(rest)).ok_or(RANGE) } else { Ok(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact() {
        let s = |text| time(text, TimeUnit::Seconds);
        let ms = |text| time(text, TimeUnit::Milliseconds);
        assert_eq!(s("1289241911.72836"), Ok(1_289_241_911_728));
        assert_eq!(s(" 1289241911 "), Ok(1_289_241_911_000));
        assert_eq!(s("0.9999"), Ok(999));
        assert_eq!(s("-0.5"), Ok(-500));
        assert_eq!(s("-0.0001"), Ok(-1));
        assert_eq!(s("1.5e9"), Ok(1_500_000_000_000));
        assert_eq!(ms("17.9"), Ok(17));
        assert_eq!(ms("-17.9"), Ok(-18));
        assert_eq!(ms("9223372036854775807"), Ok(i64::MAX));
        for bad in
            ["", "-", ".5", "1,5", "2020-01-01", "+1", "1.2.3", "9223372036854775808", "e", "1e400", "inf", "nan"]
        {
            assert!(ms(bad).is_err(), "{bad}");
            assert!(s(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_are_finite_or_missing() {
        assert_eq!(number(" 1.5 "), Ok(1.5));
        for bad in ["", "x", "inf", "nan", "1e39"] {
            assert!(number(bad).is_err(), "{bad}");
        }
        assert!(feature("").unwrap().is_nan());
        assert!(feature(" NaN").unwrap().is_nan());
        assert!(feature("-inf").is_err());
        assert!(key("-1", KeyType::U64).is_err());
        assert_eq!(key(" 7", KeyType::U64), Ok(Key::Int(7)));
        assert_eq!(key(" 7", KeyType::String), Ok(Key::from(" 7")));
    }
}
