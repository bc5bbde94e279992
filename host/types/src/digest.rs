//! SHA-256 digests, written as OCI writes them: `sha256:<64 hex digits>`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// The SHA-256 of some bytes: the identity of an artefact, whatever its name or place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Digests bytes that are in memory.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Digests a stream without holding it in memory.
    ///
    /// # Errors
    /// What the reader returns.
    pub fn of_reader(reader: &mut impl std::io::Read) -> std::io::Result<Self> {
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            match reader.read(&mut buffer)? {
                0 => return Ok(Self(hasher.finalize().into())),
                n => hasher.update(&buffer[..n]),
            }
        }
    }

    /// The first 12 hex digits: enough to tell releases apart in a log line or a table.
    #[must_use]
    pub fn short(&self) -> String {
        let mut text = self.hex();
        text.truncate(12);
        text
    }

    fn hex(&self) -> String {
        use fmt::Write as _;
        self.0.iter().fold(String::with_capacity(64), |mut text, byte| {
            // Writing into a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not `sha256:` and 64 hex digits.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a digest: `{0}` (expected sha256: and 64 lower-case hex digits)")]
pub struct BadDigest(String);

impl FromStr for Digest {
    type Err = BadDigest;

    fn from_str(text: &str) -> Result<Self, BadDigest> {
        let bad = || BadDigest(text.chars().take(100).collect());
        let hex = text.strip_prefix("sha256:").ok_or_else(bad)?;
        let lower = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
        if hex.len() != 64 || !hex.bytes().all(lower) {
            return Err(bad());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| bad())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| bad())?;
        }
        Ok(Self(bytes))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_published_vector_and_round_trips() {
        // FIPS 180-4, "abc".
        let text = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let digest = Digest::of(b"abc");
        assert_eq!(digest.to_string(), text);
        assert_eq!(text.parse(), Ok(digest));
        assert_eq!(Digest::of_reader(&mut &b"abc"[..]).unwrap(), digest);
        assert_eq!(digest.short(), "ba7816bf8f01");
    }

    #[test]
    fn refuses_what_is_not_a_digest() {
        let upper = "sha256:".to_string() + &"A".repeat(64);
        for text in ["", "sha256:", "md5:00", "sha256:zz", upper.as_str()] {
            assert!(text.parse::<Digest>().is_err(), "{text}");
        }
    }
}
