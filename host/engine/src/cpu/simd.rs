//! Which vector instructions our own loops are compiled for. They hold no fused multiply-add and no reordered sum, and
//! Rust contracts nothing by itself, so each gives the same bits at every level; only their speed differs. The matrix
//! product's bits do depend on the level, which is why the numerics id names it.

/// Vector instructions, detected once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// What the compilation target always has.
    Baseline,
    /// AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512F.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Level {
    /// The best one of this machine; the order is the one in which `gemm` 0.19 chooses its kernels.
    pub(crate) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") {
                return Self::Avx512;
            }
            if is_x86_feature_detected!("fma") && is_x86_feature_detected!("avx2") {
                return Self::Avx2;
            }
        }
        Self::Baseline
    }

    /// All that this machine can run.
    #[cfg(test)]
    pub(crate) fn available() -> Vec<Self> {
        let all = [
            Self::Baseline,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512,
        ];
        let most = all.iter().position(|&l| l == Self::detect()).expect("a level");
        all[..=most].to_vec()
    }

    /// For the numerics id.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::Baseline => "",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => "-fma",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => "-avx512f",
        }
    }
}

/// Compiles a function's body once for each [`Level`] and calls the one that is asked for.
macro_rules! vectorised {
    ($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block) => {
        $(#[$doc])*
        pub(crate) fn $name(level: $crate::cpu::simd::Level, $($arg: $ty),*) {
            #[inline(always)]
            fn body($($arg: $ty),*) $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2")]
            fn avx2($($arg: $ty),*) {
                body($($arg),*);
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f")]
            fn avx512($($arg: $ty),*) {
                body($($arg),*);
            }

            match level {
                $crate::cpu::simd::Level::Baseline => body($($arg),*),
                #[cfg(target_arch = "x86_64")]
                // SAFETY: `Level::detect` found AVX2 on this machine before it made this value.
                $crate::cpu::simd::Level::Avx2 => unsafe { avx2($($arg),*) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: `Level::detect` found AVX-512F on this machine before it made this value.
                $crate::cpu::simd::Level::Avx512 => unsafe { avx512($($arg),*) },
            }
        }
    };
}

pub(crate) use vectorised;
