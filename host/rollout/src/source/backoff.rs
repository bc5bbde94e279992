//! How long to wait before trying again.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

/// The wait before attempt `attempt` (from 0): doubled each time up to `most`, and of that a random half to whole, so that a
/// fleet that lost the same server does not come back in step.
pub(crate) fn backoff(attempt: u32, least: Duration, most: Duration, random: u64) -> Duration {
    let longest = least.saturating_mul(2_u32.saturating_pow(attempt.min(31))).min(most);
    let half = longest / 2;
    // 32 bits of the random number as a fraction of the other half.
    let fraction = f64::from(u32::try_from(random >> 32).unwrap_or(0)) / f64::from(u32::MAX);
    half + half.mul_f64(fraction)
}

/// A random number: the standard library seeds its hash maps from the operating system.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn waits_grow_stay_bounded_and_differ(attempt in 0..100_u32, random in any::<u64>()) {
            let (least, most) = (Duration::from_millis(100), Duration::from_secs(10));
            let wait = backoff(attempt, least, most, random);
            prop_assert!(wait >= least / 2 && wait <= most);
            prop_assert!(wait <= backoff(attempt, least, most, u64::MAX));
            prop_assert!(backoff(attempt, least, most, 0) <= backoff(attempt + 1, least, most, 0));
            prop_assert_eq!(backoff(attempt, least, most, 0) * 2, backoff(attempt, least, most, u64::MAX));
        }
    }
}
