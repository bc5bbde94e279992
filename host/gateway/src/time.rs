//! As-of times as text: RFC 3339.

use sagehost_types::TimeMs;

/// Reads an RFC 3339 date and time with an offset, such as `2024-05-01T12:00:00Z`; parts of a millisecond are cut off.
/// `None` for anything else.
pub(crate) fn parse_rfc3339(text: &str) -> Option<TimeMs> {
    let mut rest = text.as_bytes();
    let year = digits(&mut rest, 4)?;
    literal(&mut rest, b"-")?;
    let month = digits(&mut rest, 2)?;
    literal(&mut rest, b"-")?;
    let day = digits(&mut rest, 2)?;
    literal(&mut rest, b"Tt ")?;
    let hour = digits(&mut rest, 2)?;
    literal(&mut rest, b":")?;
    let minute = digits(&mut rest, 2)?;
    literal(&mut rest, b":")?;
    let second = digits(&mut rest, 2)?;
    let millisecond = fraction(&mut rest)?;
    let offset = offset_minutes(&mut rest)?;
    // 60 is a leap second: the second after it, as POSIX counts.
    if !rest.is_empty() || hour > 23 || minute > 59 || second > 60 || !valid_day(year, month, day) {
        return None;
    }
    let minutes = (days(year, month, day) * 24 + hour) * 60 + minute - offset;
    Some((minutes * 60 + second) * 1000 + millisecond)
}

fn digits(rest: &mut &[u8], count: usize) -> Option<i64> {
    let (head, tail) = rest.split_at_checked(count)?;
    let mut value = 0;
    for byte in head {
        value = value * 10 + i64::from(byte.checked_sub(b'0').filter(|digit| *digit < 10)?);
    }
    *rest = tail;
    Some(value)
}

/// Takes one byte that is among `any_of`.
fn literal(rest: &mut &[u8], any_of: &[u8]) -> Option<u8> {
    let (head, tail) = rest.split_first()?;
    *rest = tail;
    any_of.contains(head).then_some(*head)
}

fn fraction(rest: &mut &[u8]) -> Option<i64> {
    let Some(tail) = rest.strip_prefix(b".") else {
        return Some(0);
    };
    let count = tail.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, after) = tail.split_at_checked(count).filter(|_| count > 0)?;
    *rest = after;
    let places = digits.iter().copied().chain(std::iter::repeat(b'0')).take(3);
    Some(places.fold(0, |value, digit| value * 10 + i64::from(digit - b'0')))
}

fn offset_minutes(rest: &mut &[u8]) -> Option<i64> {
    let sign = match literal(rest, b"Zz+-")? {
        b'+' => 1,
        b'-' => -1,
        _ => return Some(0),
    };
    let hours = digits(rest, 2)?;
    literal(rest, b":")?;
    let minutes = digits(rest, 2)?;
    (hours <= 23 && minutes <= 59).then_some(sign * (hours * 60 + minutes))
}

fn valid_day(year: i64, month: i64, day: i64) -> bool {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => 0,
    };
    (1..=last).contains(&day)
}

/// Days since 1970-01-01 in the Gregorian calendar, counted in 400-year eras of years that begin in March.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let month = (month + 9) % 12;
    let of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_moments() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29t23:59:59.9999z", 951_868_799_999),
            ("2011-02-15T12:00:00+02:30", 1_297_762_200_000),
            ("2011-02-15 12:00:00.5-00:00", 1_297_771_200_500),
            ("1969-12-31T23:59:59.999Z", -1),
            ("2016-12-31T23:59:60Z", 1_483_228_800_000),
            ("0000-01-01T00:00:00Z", -62_167_219_200_000),
            ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
        ] {
            assert_eq!(parse_rfc3339(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_moment() {
        for text in [
            "",
            "2011-02-15",
            "2011-02-15T12:00:00",
            "2011-02-30T00:00:00Z",
            "1900-02-29T00:00:00Z",
            "2011-13-01T00:00:00Z",
            "2011-02-15T24:00:00Z",
            "2011-02-15T12:60:00Z",
            "2011-02-15T12:00:00.Z",
            "2011-02-15T12:00:00+24:00",
            "2011-02-15T12:00:00Zx",
            "2011-2-15T12:00:00Z",
            "+011-02-15T12:00:00Z",
            "2011-02-15T12:00Z",
        ] {
            assert_eq!(parse_rfc3339(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn successive_days_are_a_day_apart(year in 0_i64..9999, month in 1_i64..=12, day in 1_i64..=31) {
            prop_assume!(valid_day(year, month, day));
            let next = match (valid_day(year, month, day + 1), month) {
                (true, _) => (year, month, day + 1),
                (false, 12) => (year + 1, 1, 1),
                (false, _) => (year, month + 1, 1),
            };
            prop_assert_eq!(days(next.0, next.1, next.2), days(year, month, day) + 1);
        }

        #[test]
        fn any_text_is_safe(text in "\\PC{0,30}|[0-9TZ:+.-]{0,30}") {
            let _ = parse_rfc3339(&text);
        }
    }
}
