//! The hash that Nix gives to a folder: SHA-256 of its Nix archive (Dolstra, The Purely Functional Software Deployment
//! Model, figure 5.2), written as the W3C writes one for subresource integrity.
//!
//! Owns: the archive's form. Never: follows a link; there is none in a wheel.

use std::io::Read;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use crate::base::disk;
use crate::base::files::{self, FileError};

/// The hash of a folder that holds these files, each with the bytes that lie at its place below `root`.
pub(super) fn hash(root: &Path, names: &[String]) -> Result<String, FileError> {
    let mut names: Vec<Vec<&str>> = names.iter().map(|name| name.split('/').collect()).collect();
    // By folder, and there by bytes, as the archive has them.
    names.sort();
    let mut archive = Archive(Sha256::new());
    archive.text("nix-archive-1");
    archive.folder(root, &names, 0)?;
    Ok(format!("sha256-{}", STANDARD.encode(archive.0.finalize())))
}

struct Archive(Sha256);

impl Archive {
    fn text(&mut self, text: &str) {
        self.length(text.len() as u64);
        self.0.update(text);
        self.pad(text.len() as u64);
    }

    fn texts(&mut self, texts: &[&str]) {
        texts.iter().for_each(|text| self.text(text));
    }

    fn length(&mut self, length: u64) {
        self.0.update(length.to_le_bytes());
    }

    fn pad(&mut self, length: u64) {
        self.0.update(&[0; 8][..(length.next_multiple_of(8) - length) as usize]);
    }

    /// The folder whose files are `names`, which are alike in their first `depth` words.
    fn folder(&mut self, root: &Path, names: &[Vec<&str>], depth: usize) -> Result<(), FileError> {
        self.texts(&["(", "type", "directory"]);
        for entry in names.chunk_by(|one, other| one[depth] == other[depth]) {
            self.texts(&["entry", "(", "name", entry[0][depth], "node"]);
            if entry[0].len() == depth + 1 {
                self.file(&root.join(entry[0].join("/")))?;
            } else {
                self.folder(root, entry, depth + 1)?;
            }
            self.text(")");
        }
        self.text(")");
        Ok(())
    }

    fn file(&mut self, path: &Path) -> Result<(), FileError> {
        self.texts(&["(", "type", "regular"]);
        if disk::is_executable(path) {
            self.texts(&["executable", ""]);
        }
        self.text("contents");
        let (length, _) = files::stamp(path)?;
        self.length(length);
        let mut file = files::open(path)?;
        let mut block = vec![0; 256 << 10];
        loop {
            let unreadable = |cause| FileError { action: "read", path: path.to_owned(), cause };
            match file.read(&mut block).map_err(unreadable)? {
                0 => break,
                count => self.0.update(&block[..count]),
            }
        }
        self.pad(length);
        self.text(")");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_the_hash_that_nix_gives_it() {
        let folder = files::scratch().unwrap();
        let names = ["bin/tool", "include/a.h", "include-more/b.h", "empty"];
        for (name, text) in names.iter().zip(["#!/bin/sh\n", "#pragma once\n", "12345678", ""]) {
            files::write(&folder.path().join(name), text).unwrap();
        }
        files::make_executable(&folder.path().join("bin/tool")).unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        // `nix hash path` of Nix 2.8.0.
        assert_eq!(
            hash(folder.path(), &names).unwrap(),
            "sha256-xZ+3+oRrnuJeYFW7O3izE2FIz6BtFTnrZWct9R9y5oQ="
        );
    }
}
