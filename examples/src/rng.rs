//! Random numbers for the generator: SplitMix64 (Steele, Lea, Flood 2014; the constants are those of `java.util`'s), one
//! independent stream for each purpose. Only `+ − × ÷ √`, which IEEE 754 rounds exactly, and no `exp`, `ln` or `cos`, whose
//! last bits differ between platforms: the same seed writes the same files everywhere.

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The stream `stream` of a seed.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut rng = Self(seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95));
        // Neighbouring streams start far apart only after their counters were mixed.
        let start = rng.next_u64();
        Self(start)
    }

    /// 64 uniform bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Uniform in [low, high).
    pub fn range(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Uniform in 0..n; 0 for n = 0. The bias (n / 2⁶⁴) does not matter here.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next_u64()) * n as u128) >> 64) as usize
    }

    /// True with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// Nearly normal, mean 0 and deviation 1: twelve uniforms less six (Irwin–Hall).
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }

    /// Nearly log-normal: `median · e^(spread · normal)`.
    pub fn around(&mut self, median: f64, spread: f64) -> f64 {
        median * exp(spread * self.normal())
    }

    /// One of a slice's items; `None` of an empty one.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len()))
    }

    /// Shuffles in place (Fisher–Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

/// (1 + x/1024)^1024: e^x nearly enough for drawing amounts.
fn exp(x: f64) -> f64 {
    let mut y = 1.0 + x / 1024.0;
    for _ in 0..10 {
        y *= y;
    }
    y
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_published_splitmix64_sequence() {
        // First outputs for the state 1234567, as in Rosetta Code's "Pseudo-random numbers/Splitmix64".
        let mut rng = Rng(1_234_567);
        let got = [rng.next_u64(), rng.next_u64(), rng.next_u64()];
        assert_eq!(got, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn streams_differ_and_draws_keep_their_bounds() {
        let (mut a, mut b) = (Rng::new(7, 0), Rng::new(7, 1));
        assert_ne!(a.next_u64(), b.next_u64());
        for _ in 0..1000 {
            assert!((0.0..1.0).contains(&a.unit()));
            assert!(a.below(3) < 3);
            assert!(a.normal().abs() <= 6.0);
            assert!(a.around(10.0, 0.5) > 0.0);
        }
        assert_eq!(a.below(0), 0);
        assert_eq!(a.pick::<u8>(&[]), None);
    }

    #[test]
    fn shuffles_keep_every_item() {
        let mut items: Vec<u32> = (0..100).collect();
        Rng::new(1, 2).shuffle(&mut items);
        assert_ne!(items[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
