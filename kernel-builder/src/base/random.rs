//! Random numbers: secret ones from the operating system, and repeatable ones that follow from a seed.
//!
//! Owns: the call to the operating system, the generator. Never: repeats a secret.

/// 32 random bytes from the operating system, in hexadecimal: a nonce or a secret that no one can guess.
///
/// # Panics
/// The operating system has no random bytes. Rust's hash maps use the same source and panic too, so no run gets here then.
pub(crate) fn secret() -> String {
    bytes::<32>().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A random seed from the operating system.
///
/// # Panics
/// As [`secret`].
pub(crate) fn seed() -> u64 {
    u64::from_le_bytes(bytes())
}

fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system has random bytes");
    bytes
}

/// SplitMix64 (G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", 2014).
#[derive(Debug, Clone)]
pub(crate) struct SplitMix(pub(crate) u64);

impl SplitMix {
    /// The next 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, by multiplication; the bias is below 2^-40 for every bound here.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_have_256_bits_and_differ() {
        let (one, other) = (secret(), secret());
        assert!(one.len() == 64 && one.bytes().all(|letter| letter.is_ascii_hexdigit()), "{one}");
        assert_ne!(one, other);
        assert_ne!(seed(), seed());
    }

    #[test]
    fn random_numbers_are_those_of_the_paper() {
        // First outputs for seed 0, as in every published implementation.
        let mut random = SplitMix(0);
        assert_eq!(random.next(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(random.next(), 0x6e78_9e6a_a1b9_65f4);
    }
}
