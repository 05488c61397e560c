//! Symbol versions of the C and C++ libraries, and which of them manylinux_2_28 has.
//!
//! Owns: the caps. Never: reads a library.

/// The newest versions that every system of the manylinux_2_28 age has (PEP 600; the policy file of auditwheel): glibc
/// 2.28 and the libstdc++ and libgcc_s of GCC 8.
const CAPS: &[(&str, &[u32])] =
    &[("GLIBC", &[2, 28]), ("GLIBCXX", &[3, 4, 24]), ("CXXABI", &[1, 3, 11]), ("GCC", &[7, 0, 0])];

/// How old a symbol version is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Age {
    /// Old systems have it; larger is newer.
    Old(Vec<u32>),
    /// Only newer systems have it.
    Newer,
    /// Not of a library that is cut, or not for users, e.g. `GLIBC_PRIVATE`.
    Other,
}

/// The age of a version such as `GLIBC_2.28`.
pub(super) fn age(version: &str) -> Age {
    // Markers such as GLIBC_ABI_DT_RELR: a loader without them refuses the library.
    if version.starts_with("GLIBC_ABI_") {
        return Age::Newer;
    }
    let Some((family, numbers)) = version.rsplit_once('_') else { return Age::Other };
    let Some((_, cap)) = CAPS.iter().find(|(name, _)| *name == family) else { return Age::Other };
    let numbers: Result<Vec<u32>, _> = numbers.split('.').map(str::parse).collect();
    match numbers {
        Ok(numbers) if numbers.as_slice() <= *cap => Age::Old(numbers),
        Ok(_) => Age::Newer,
        Err(_) => Age::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages() {
        for (version, want) in [
            ("GLIBC_2.2.5", Age::Old(vec![2, 2, 5])),
            ("GLIBC_2.28", Age::Old(vec![2, 28])),
            ("GLIBC_2.29", Age::Newer),
            ("GLIBC_ABI_DT_RELR", Age::Newer),
            ("GLIBC_PRIVATE", Age::Other),
            ("GLIBCXX_3.4", Age::Old(vec![3, 4])),
            ("GLIBCXX_3.4.25", Age::Newer),
            ("CXXABI_1.3.11", Age::Old(vec![1, 3, 11])),
            ("CXXABI_TM_1", Age::Other),
            ("GCC_4.8.0", Age::Old(vec![4, 8, 0])),
            ("GCC_13.0.0", Age::Newer),
            ("libcudart.so.13", Age::Other),
        ] {
            assert_eq!(age(version), want, "{version}");
        }
    }
}
