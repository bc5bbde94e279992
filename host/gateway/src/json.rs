//! A strict JSON reader (RFC 8259) that borrows from the body.
//!
//! Not serde's: a number's text is kept, so that a feature becomes the nearest `f32` without a detour through `f64`, a key
//! keeps its 64 bits and a number out of range is a field's fault and not the document's; a repeated member is refused
//! rather than one of the two picked; and nesting is bounded.

use std::borrow::Cow;
use std::collections::HashSet;

use sagehost_types::{Code, Fault};

/// Deepest nesting of arrays and objects. The deepest documented request needs 5.
pub(crate) const MAX_DEPTH: usize = 16;

/// A JSON value; members in the order of the text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    /// The text of a number, in JSON's grammar.
    Number(&'a str),
    String(Cow<'a, str>),
    Array(Vec<Value<'a>>),
    Object(Vec<(Cow<'a, str>, Value<'a>)>),
}

impl Value<'_> {
    /// What kind of value this is, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::String(_) => "a string",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        }
    }
}

/// Reads a whole document.
///
/// # Errors
/// [`Code::Malformed`] with line and column.
pub(crate) fn parse(body: &[u8]) -> Result<Value<'_>, Fault> {
    let text = match std::str::from_utf8(body) {
        Ok(text) => text,
        Err(error) => {
            let valid = String::from_utf8_lossy(body.get(..error.valid_up_to()).unwrap_or_default());
            return Err(malformed(&valid, valid.len(), "the text is not UTF-8"));
        }
    };
    let mut parser = Parser { text, bytes: body, at: 0 };
    let value = parser.value(0).and_then(|value| {
        parser.space();
        match parser.peek() {
            None => Ok(value),
            Some(_) => Err("there is more after the end of the document".into()),
        }
    });
    value.map_err(|what| malformed(text, parser.at, &what))
}

fn malformed(text: &str, at: usize, what: &str) -> Fault {
    let before = text.get(..at).unwrap_or(text);
    let line = before.bytes().filter(|&b| b == b'\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    Fault::new(Code::Malformed, format!("not JSON: {what}, at line {line}, column {column}"))
}

struct Parser<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

type Parsed<T> = Result<T, Cow<'static, str>>;

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn slice(&self, from: usize) -> &'a str {
        self.text.get(from..self.at).unwrap_or_default()
    }

    /// Takes `byte` if it comes next.
    fn take(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn value(&mut self, depth: usize) -> Parsed<Value<'a>> {
        self.space();
        match self.peek() {
            Some(b'{' | b'[') if depth >= MAX_DEPTH => Err(format!("nesting is deeper than {MAX_DEPTH}").into()),
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.array(depth + 1),
            Some(b'"') => self.string().map(Value::String),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            Some(b'N' | b'I') => Err("NaN and Infinity are not JSON; a missing value is null".into()),
            Some(_) => Err("expected a value".into()),
            None => Err("the text ends where a value is expected".into()),
        }
    }

    fn word(&mut self, word: &str, value: Value<'a>) -> Parsed<Value<'a>> {
        match self.bytes.get(self.at..).is_some_and(|rest| rest.starts_with(word.as_bytes())) {
            true => {
                self.at += word.len();
                Ok(value)
            }
            false => Err(format!("expected `{word}`").into()),
        }
    }

    fn object(&mut self, depth: usize) -> Parsed<Value<'a>> {
        self.at += 1;
        let mut members = Vec::new();
        self.space();
        if self.take(b'}') {
            return Ok(Value::Object(members));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return Err("expected a member's name in double quotes".into());
            }
            let name = self.string()?;
            self.space();
            if !self.take(b':') {
                return Err("expected `:` after a member's name".into());
            }
            let value = self.value(depth)?;
            members.push((name, value));
            self.space();
            if self.take(b'}') {
                break;
            }
            if !self.take(b',') {
                return Err("expected `,` or `}` after a member".into());
            }
        }
        match repeated(&members) {
            Some(name) => {
                Err(format!("the member `{}` appears twice in the object that ends here", brief(name)).into())
            }
            None => Ok(Value::Object(members)),
        }
    }

    fn array(&mut self, depth: usize) -> Parsed<Value<'a>> {
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.take(b']') {
            return Ok(Value::Array(items));
        }
        loop {
            items.push(self.value(depth)?);
            self.space();
            if self.take(b']') {
                return Ok(Value::Array(items));
            }
            if !self.take(b',') {
                return Err("expected `,` or `]` after an element".into());
            }
        }
    }

    fn digits(&mut self) -> Parsed<()> {
        let from = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        match self.at > from {
            true => Ok(()),
            false => Err("expected a digit".into()),
        }
    }

    fn number(&mut self) -> Parsed<Value<'a>> {
        let from = self.at;
        if self.take(b'-') && matches!(self.peek(), Some(b'N' | b'I')) {
            return Err("NaN and Infinity are not JSON; a missing value is null".into());
        }
        if self.take(b'0') {
            if matches!(self.peek(), Some(b'0'..=b'9')) {
                return Err("a number does not begin with 0".into());
            }
        } else {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            if !self.take(b'+') {
                self.take(b'-');
            }
            self.digits()?;
        }
        Ok(Value::Number(self.slice(from)))
    }

    fn string(&mut self) -> Parsed<Cow<'a, str>> {
        self.at += 1;
        let mut unescaped: Option<String> = None;
        loop {
            let from = self.at;
            while matches!(self.peek(), Some(b) if b != b'"' && b != b'\\' && b >= 0x20) {
                self.at += 1;
            }
            let run = self.slice(from);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(match unescaped {
                        None => Cow::Borrowed(run),
                        Some(text) => Cow::Owned(text + run),
                    });
                }
                Some(b'\\') => {
                    let text = unescaped.get_or_insert_default();
                    text.push_str(run);
                    self.at += 1;
                    let escaped = self.escape()?;
                    unescaped.get_or_insert_default().push(escaped);
                }
                Some(_) => return Err("a control character in a string must be escaped".into()),
                None => return Err("the text ends inside a string".into()),
            }
        }
    }

    fn escape(&mut self) -> Parsed<char> {
        let Some(byte) = self.peek() else {
            return Err("the text ends inside a string".into());
        };
        let plain = match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                self.at += 1;
                return self.unicode();
            }
            _ => return Err("no such escape in JSON".into()),
        };
        self.at += 1;
        Ok(plain)
    }

    fn unicode(&mut self) -> Parsed<char> {
        let lone = || Cow::from("a \\u escape is half of a surrogate pair");
        let first = self.hex4()?;
        let scalar = match first {
            0xd800..=0xdbff => {
                if !(self.take(b'\\') && self.take(b'u')) {
                    return Err(lone());
                }
                let second = self.hex4()?;
                if !(0xdc00..=0xdfff).contains(&second) {
                    return Err(lone());
                }
                0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00)
            }
            other => other,
        };
        char::from_u32(scalar).ok_or_else(lone)
    }

    fn hex4(&mut self) -> Parsed<u32> {
        let mut value = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            value = value * 16 + digit.ok_or("expected four hexadecimal digits after \\u")?;
            self.at += 1;
        }
        Ok(value)
    }
}

/// The name of a member that appears twice.
fn repeated<'m>(members: &'m [(Cow<'_, str>, Value<'_>)]) -> Option<&'m str> {
    // Most objects have a few members, which need no set.
    if members.len() <= 16 {
        let earlier = |(place, (name, _)): (usize, &'m (Cow<'_, str>, _))| {
            members.iter().take(place).any(|(other, _)| other == name).then_some(&**name)
        };
        return members.iter().enumerate().find_map(earlier);
    }
    let mut seen = HashSet::with_capacity(members.len());
    members.iter().map(|(name, _)| &**name).find(|name| !seen.insert(*name))
}

/// The beginning of a text that a caller sent, fit for a message.
pub(crate) fn brief(text: &str) -> Cow<'_, str> {
    const MOST: usize = 64;
    match text.char_indices().nth(MOST) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}…", text.get(..end).unwrap_or_default())),
    }
}

#[cfg(test)]
#[path = "tests/json.rs"]
pub(crate) mod tests;
