//! A quick hash for maps from dense ids and times, which the host itself hands out.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map keyed on integers.
pub(crate) type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Multiply and fold, 64 bits at a time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        // The golden ratio's bits. Folding brings the well-mixed high half down to where the table takes its index from.
        let product = u128::from(self.0 ^ value ^ 0x51_7c_c1_b7_27_22_0a_95) * 0x9E37_79B9_7F4A_7C15_u128;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    fn write_i64(&mut self, value: i64) {
        self.write_u64(value.cast_unsigned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn neighbouring_ids_spread() {
        let low: HashSet<u64> = (0..4096_u64)
            .map(|id| {
                let mut hasher = IdHasher::default();
                hasher.write_u64(id);
                hasher.write_i64(1_700_000_000_000);
                hasher.finish() & 0xffff
            })
            .collect();
        assert!(low.len() > 3700, "{}", low.len());
    }
}
