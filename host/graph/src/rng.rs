//! The random numbers of sampling: Philox4x32-10, a counter-based generator. A number is a function of its key and counter
//! alone, so a sample depends on neither thread, batch nor storage. `docs/formats.md` has the layout and test vectors.
//!
//! Source: J. K. Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011, and Random123's known answers;
//! bounded draws after D. Lemire, "Fast Random Integer Generation in an Interval", ACM TOMACS 2019.

use xxhash_rust::xxh3::xxh3_64;

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// One block of Philox4x32 with 10 rounds.
#[must_use]
pub fn philox4x32_10(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for round in 0..10 {
        if round > 0 {
            key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
        }
        let (hi0, lo0) = split(u64::from(MULTIPLIERS[0]) * u64::from(counter[0]));
        let (hi1, lo1) = split(u64::from(MULTIPLIERS[1]) * u64::from(counter[2]));
        counter = [hi1 ^ counter[1] ^ key[0], lo1, hi0 ^ counter[3] ^ key[1], lo0];
    }
    counter
}

/// The high and the low half.
const fn split(value: u64) -> (u32, u32) {
    ((value >> 32) as u32, value as u32)
}

/// What the draws of one relation of one release are keyed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrawKey([u32; 2]);

impl DrawKey {
    /// The XXH3-64 of the salt's bytes, a zero byte and the relation's name.
    #[must_use]
    pub fn new(salt: &str, relation: &str) -> Self {
        let mut bytes = Vec::with_capacity(salt.len() + 1 + relation.len());
        bytes.extend_from_slice(salt.as_bytes());
        bytes.push(0);
        bytes.extend_from_slice(relation.as_bytes());
        let (hi, lo) = split(xxh3_64(&bytes));
        Self([lo, hi])
    }

    /// The draws of one node (by the hash of its external key) at one hop.
    #[must_use]
    pub fn draws(self, key_hash: u64, hop: u32) -> Draws {
        Draws { key: self.0, key_hash, hop, block: 0, words: [0; 4], used: 4 }
    }
}

/// The stream of random numbers of one (relation, node, hop).
#[derive(Clone, Debug)]
pub struct Draws {
    key: [u32; 2],
    key_hash: u64,
    hop: u32,
    block: u32,
    words: [u32; 4],
    used: usize,
}

impl Draws {
    /// The next 32 bits.
    pub fn next_u32(&mut self) -> u32 {
        if self.used == self.words.len() {
            let (hi, lo) = split(self.key_hash);
            self.words = philox4x32_10([lo, hi, self.hop, self.block], self.key);
            self.block = self.block.wrapping_add(1);
            self.used = 0;
        }
        let word = self.words[self.used];
        self.used += 1;
        word
    }

    /// The next 64 bits: the low half is drawn first.
    pub fn next_u64(&mut self) -> u64 {
        let lo = self.next_u32();
        u64::from(lo) | u64::from(self.next_u32()) << 32
    }

    /// A number below `bound`, each equally likely. 0 where `bound` is 0 (nothing is drawn then).
    pub fn below_u32(&mut self, bound: u32) -> u32 {
        if bound == 0 {
            return 0;
        }
        let mut product = u64::from(self.next_u32()) * u64::from(bound);
        if (product as u32) < bound {
            // 2³² mod bound: draws under it would make some results likelier than others.
            let uneven = bound.wrapping_neg() % bound;
            while (product as u32) < uneven {
                product = u64::from(self.next_u32()) * u64::from(bound);
            }
        }
        (product >> 32) as u32
    }

    /// As [`Draws::below_u32`] with 64-bit draws.
    pub fn below_u64(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        let mut product = u128::from(self.next_u64()) * u128::from(bound);
        if (product as u64) < bound {
            let uneven = bound.wrapping_neg() % bound;
            while (product as u64) < uneven {
                product = u128::from(self.next_u64()) * u128::from(bound);
            }
        }
        (product >> 64) as u64
    }
}

impl Iterator for Draws {
    type Item = u32;

    /// The next 32 bits; never ends.
    fn next(&mut self) -> Option<u32> {
        Some(self.next_u32())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn philox_gives_the_known_answers_of_random123() {
        // kat_vectors of Random123 1.14: philox 4x32 10.
        let cases = [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([u32::MAX; 4], [u32::MAX; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (counter, key, answer) in cases {
            assert_eq!(philox4x32_10(counter, key), answer);
        }
    }

    #[test]
    fn draws_follow_the_documented_layout() {
        let hash = xxh3_64(b"salt\0received");
        let key = [hash as u32, (hash >> 32) as u32];
        let node = 0x0123_4567_89ab_cdef_u64;
        let mut expected = Vec::new();
        for block in 0..3 {
            expected.extend(philox4x32_10([0x89ab_cdef, 0x0123_4567, 1, block], key));
        }
        let draws = DrawKey::new("salt", "received").draws(node, 1);
        assert_eq!(draws.clone().take(12).collect::<Vec<_>>(), expected);
        let mut wide = draws;
        assert_eq!(wide.next_u64(), u64::from(expected[0]) | u64::from(expected[1]) << 32);
        // The zero byte keeps salt and name apart.
        assert_ne!(DrawKey::new("a", "bc"), DrawKey::new("ab", "c"));
    }

    #[test]
    fn bounded_draws_are_even_and_in_range() {
        let mut draws = DrawKey::new("s", "r").draws(7, 0);
        let mut counts = [0_u32; 7];
        for _ in 0..70_000 {
            counts[draws.below_u32(7) as usize] += 1;
        }
        // Chi-square with 6 degrees of freedom: 22.5 is the 0.1 % point. The seed is fixed, so this cannot flicker.
        let chi: f64 = counts.iter().map(|&c| (f64::from(c) - 10_000.0).powi(2) / 10_000.0).sum();
        assert!(chi < 22.5, "{chi} {counts:?}");
        assert_eq!((draws.below_u32(0), draws.below_u64(0), draws.below_u32(1), draws.below_u64(1)), (0, 0, 0, 0));
        // Bounds just over a power of two reject about half of the draws.
        for _ in 0..1000 {
            assert!(draws.below_u64((1 << 63) + 1) <= 1 << 63);
            assert!(draws.below_u32((1 << 31) + 1) <= 1 << 31);
        }
    }
}
