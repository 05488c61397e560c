//! Records of the repository that were moved into an archive (bench/records.py), for tests.
//!
//! Owns: unpacking. Never: part of the program.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::OnceLock;

const ARCHIVE: &[u8] = include_bytes!("../../../bench/results/archive-0.1.tar.xz");

/// The text of an archived record.
pub(crate) fn old_record(name: &str) -> &'static str {
    static RECORDS: OnceLock<BTreeMap<String, String>> = OnceLock::new();
    let records = RECORDS.get_or_init(|| {
        let texts = unpacked(ARCHIVE).into_iter();
        texts.map(|(name, bytes)| (name, String::from_utf8(bytes).expect("UTF-8"))).collect()
    });
    records.get(name).unwrap_or_else(|| panic!("no {name} in the archive"))
}

/// The files of an archive, by name.
pub(crate) fn unpacked(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut archive = tar::Archive::new(lzma_rust2::XzReader::new(archive, true));
    let entries = archive.entries().expect("a tar archive");
    let file = |entry: std::io::Result<tar::Entry<'_, _>>| {
        let mut entry = entry.expect("an entry");
        let name = entry.path().expect("a name").display().to_string();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).expect("a whole file");
        (name, bytes)
    };
    entries.map(file).collect()
}
