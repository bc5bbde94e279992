//! From JSON values to typed ones, each fault with the JSON pointer of the field.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sagehost_pipeline::api::Features;
use sagehost_types::{Code, Fault, Key, TimeMs, limits};

use crate::json::{Value, brief};
use crate::time::parse_rfc3339;

/// Where a value is in the document. Lives on the stack; it becomes a pointer only when there is a fault.
#[derive(Clone, Copy)]
pub(crate) enum At<'a> {
    Root,
    Member(&'a At<'a>, &'a str),
    Index(&'a At<'a>, usize),
}

impl At<'_> {
    /// The JSON pointer (RFC 6901).
    pub(crate) fn pointer(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Member(parent, name) => {
                format!("{}/{}", parent.pointer(), name.replace('~', "~0").replace('/', "~1"))
            }
            Self::Index(parent, index) => format!("{}/{index}", parent.pointer()),
        }
    }

    pub(crate) fn invalid(&self, detail: impl Into<String>) -> Fault {
        Fault::new(Code::InvalidField, detail).at(self.pointer())
    }

    pub(crate) fn missing(&self, detail: impl Into<String>) -> Fault {
        Fault::new(Code::MissingField, detail).at(self.pointer())
    }

    fn expected(&self, what: &str, value: &Value<'_>) -> Fault {
        self.invalid(format!("expected {what}, found {}", value.kind()))
    }
}

/// An object's members.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'v> {
    members: &'v [(Cow<'v, str>, Value<'v>)],
}

impl<'v> Fields<'v> {
    pub(crate) fn of(value: &'v Value<'v>, at: &At<'_>) -> Result<Self, Fault> {
        match value {
            Value::Object(members) => Ok(Self { members }),
            other => Err(at.expected("an object", other)),
        }
    }

    /// A member's value; `null` counts as absent.
    pub(crate) fn get(&self, name: &str) -> Option<&'v Value<'v>> {
        self.members.iter().find(|(n, _)| n == name).map(|(_, value)| value).filter(|value| **value != Value::Null)
    }

    pub(crate) fn require(&self, name: &str, at: &At<'_>) -> Result<&'v Value<'v>, Fault> {
        self.get(name).ok_or_else(|| At::Member(at, name).missing(format!("`{name}` is required")))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'v str, &'v Value<'v>)> {
        self.members.iter().map(|(name, value)| (&**name, value))
    }

    /// Refuses a member that is not among `known`.
    pub(crate) fn only(&self, known: &[&str], at: &At<'_>) -> Result<(), Fault> {
        match self.iter().find(|(name, _)| !known.contains(name)) {
            None => Ok(()),
            Some((name, _)) => Err(unknown(name, known, at)),
        }
    }
}

/// The fault for a member that is not known here.
pub(crate) fn unknown(name: &str, known: &[&str], at: &At<'_>) -> Fault {
    let known = known.join(", ");
    At::Member(at, name).invalid(format!("there is no field `{}` here; there is: {known}", brief(name)))
}

pub(crate) fn array<'v>(value: &'v Value<'v>, most: usize, at: &At<'_>) -> Result<&'v [Value<'v>], Fault> {
    match value {
        Value::Array(items) if items.len() > most => {
            Err(at.invalid(format!("{} entries given, at most {most} are taken", items.len())))
        }
        Value::Array(items) => Ok(items),
        other => Err(at.expected("an array", other)),
    }
}

pub(crate) fn text<'v>(value: &'v Value<'v>, most: usize, at: &At<'_>) -> Result<&'v str, Fault> {
    match value {
        Value::String(text) if text.is_empty() => Err(at.invalid("the string is empty")),
        Value::String(text) if text.len() > most => {
            Err(at.invalid(format!("the string has {} bytes, at most {most} are taken", text.len())))
        }
        Value::String(text) => Ok(text),
        other => Err(at.expected("a string", other)),
    }
}

pub(crate) fn boolean(value: &Value<'_>, at: &At<'_>) -> Result<bool, Fault> {
    match value {
        Value::Bool(value) => Ok(*value),
        other => Err(at.expected("a boolean", other)),
    }
}

/// A node's external key.
pub(crate) fn key(value: &Value<'_>, at: &At<'_>) -> Result<Key, Fault> {
    match value {
        Value::Number(number) => number.parse().map(Key::Int).map_err(|_| {
            at.invalid(format!("a key is a string or an integer from 0 to 18446744073709551615, not {}", brief(number)))
        }),
        Value::String(_) => text(value, limits::MAX_KEY, at).map(Key::from),
        other => Err(at.expected("a key (a string or an unsigned integer)", other)),
    }
}

/// An entity's key: kept as text.
pub(crate) fn entity(value: &Value<'_>, at: &At<'_>) -> Result<String, Fault> {
    match value {
        Value::Number(number) if number.bytes().all(|b| b.is_ascii_digit()) && number.len() <= limits::MAX_KEY => {
            Ok((*number).to_string())
        }
        Value::String(_) => text(value, limits::MAX_KEY, at).map(String::from),
        other => Err(at.expected("a string or an unsigned integer", other)),
    }
}

/// A moment: milliseconds since the Unix epoch, or RFC 3339 text.
pub(crate) fn time(value: &Value<'_>, at: &At<'_>) -> Result<TimeMs, Fault> {
    let wrong = |given: &str| {
        let given = brief(given);
        at.invalid(format!(
            "`{given}` is not a time: give milliseconds since 1970 as an integer, or text such as 2024-05-01T12:00:00Z"
        ))
    };
    match value {
        Value::Number(number) => number.parse().map_err(|_| wrong(number)),
        Value::String(text) => parse_rfc3339(text).ok_or_else(|| wrong(text)),
        other => Err(at.expected("a time (an integer or a string)", other)),
    }
}

/// The nearest 32-bit float to a number's text.
pub(crate) fn float(value: &Value<'_>, at: &At<'_>) -> Result<f32, Fault> {
    match value {
        Value::Number(number) => match number.parse::<f32>() {
            Ok(float) if float.is_finite() => Ok(float),
            _ => Err(at.invalid(format!("{} is outside the range of 32-bit floats", brief(number)))),
        },
        other => Err(at.expected("a number", other)),
    }
}

fn feature(value: &Value<'_>, at: &At<'_>) -> Result<Option<f32>, Fault> {
    match value {
        Value::Null => Ok(None),
        Value::Number(_) => float(value, at).map(Some),
        other => Err(at.expected("a number, or null for a missing value", other)),
    }
}

/// Features by position or by name.
pub(crate) fn features(value: &Value<'_>, at: &At<'_>) -> Result<Features, Fault> {
    match value {
        Value::Null => Ok(Features::Absent),
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.map(|(i, item)| feature(item, &At::Index(at, i))).collect::<Result<_, _>>().map(Features::List)
        }
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| Ok((name.to_string(), feature(value, &At::Member(at, name))?)))
            .collect::<Result<_, _>>()
            .map(Features::Named),
        other => Err(at.expected("features (an array, or an object by name)", other)),
    }
}

/// Edge columns by name; `null` counts as absent.
pub(crate) fn columns(value: &Value<'_>, at: &At<'_>) -> Result<BTreeMap<String, f32>, Fault> {
    Fields::of(value, at)?
        .iter()
        .filter(|(_, value)| **value != Value::Null)
        .map(|(name, value)| Ok((name.to_string(), float(value, &At::Member(at, name))?)))
        .collect()
}

/// An integer from 1 to `most`.
pub(crate) fn count(value: &Value<'_>, most: u64, at: &At<'_>) -> Result<u64, Fault> {
    match value {
        Value::Number(number) => match number.parse() {
            Ok(count) if (1..=most).contains(&count) => Ok(count),
            _ => Err(at.invalid(format!("expected an integer from 1 to {most}, found {}", brief(number)))),
        },
        other => Err(at.expected(&format!("an integer from 1 to {most}"), other)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pointers_are_escaped() {
        let root = At::Root;
        let features = At::Member(&root, "a/b~c");
        assert_eq!(At::Index(&features, 3).pointer(), "/a~1b~0c/3");
    }

    proptest! {
        #[test]
        fn every_f32_survives_its_own_text(bits in any::<u32>()) {
            let float = f32::from_bits(bits);
            prop_assume!(float.is_finite());
            let text = serde_json::to_string(&float).unwrap();
            let read = super::float(&crate::json::parse(text.as_bytes()).unwrap(), &At::Root).unwrap();
            prop_assert_eq!(read.to_bits(), bits, "{}", text);
        }
    }
}
