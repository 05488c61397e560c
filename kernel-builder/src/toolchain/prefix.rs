//! Files of a compiler that is installed under a prefix.
//!
//! Owns: the names of such folders. Never: takes the prefix as a whole, which may be the home of a user.

use std::path::{Path, PathBuf};

use crate::base::disk;

/// The folders beside `bin`, which may hold scripts of the user, that compilers of GCC, LLVM, conda and NVIDIA use.
const FOLDERS: [&str; 12] = [
    "aarch64-conda-linux-gnu",
    "aarch64-linux-gnu",
    "include",
    "lib",
    "lib32",
    "lib64",
    "libexec",
    "nvvm",
    "share",
    "targets",
    "x86_64-conda-linux-gnu",
    "x86_64-linux-gnu",
];

/// The folders of the program `<prefix>/bin/<program>`: of the prefix where it was found, and of the one where its file is.
pub(crate) fn folders_of(program: &Path) -> Vec<PathBuf> {
    let prefix = |program: &Path| Some(program.parent()?.parent()?.to_owned());
    let prefixes = [prefix(program), prefix(&disk::real(program))];
    prefixes.into_iter().flatten().flat_map(|prefix| FOLDERS.map(|folder| prefix.join(folder))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_in_a_home_does_not_open_it() {
        let folders = folders_of(Path::new("/home/me/bin/g++"));
        assert!(folders.contains(&PathBuf::from("/home/me/lib")));
        assert!(
            !folders.iter().any(|folder| Path::new("/home/me/project").starts_with(folder)),
            "{folders:?}"
        );
    }
}
