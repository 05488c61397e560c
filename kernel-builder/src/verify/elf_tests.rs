//! Libraries that are written byte by byte, most of them wrong: each is told apart or refused, and none ends the judge.
//!
//! Owns: the smallest shared library. Never: asks for a linker.

use super::*;
use crate::base::causes::chain;

const ENTRY: &str = "PyInit__k";
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_VERNEED: u64 = 0x6fff_fffe;

/// What a library of the tests is made of.
#[derive(Clone)]
struct Sample {
    kind: u16,
    machine: u16,
    /// Flags of `PT_GNU_STACK`; none without that segment.
    stack: Option<u32>,
    /// Entries of the dynamic section: tag and number.
    numbers: Vec<(u64, u64)>,
    /// The same, with a string for a number.
    strings: Vec<(u64, &'static [u8])>,
    /// Dynamic symbols: name, binding, section (0 is undefined), value.
    symbols: Vec<(&'static [u8], u8, u16, u64)>,
    /// The version that is needed of `libc.so.6`.
    version: &'static str,
    /// Whether it has section headers.
    sections: bool,
    /// By what the loader finds the last symbol, beside nothing.
    found_by: Option<Table>,
}

/// A table of the loader that has numbers of symbols.
#[derive(Clone, Copy)]
enum Table {
    Relocations,
    PltRelocations,
    Hash,
    GnuHash,
}

impl Sample {
    /// An honest one.
    fn good() -> Self {
        Self {
            kind: 3,
            machine: 62,
            stack: Some(6),
            numbers: vec![],
            strings: vec![(1, b"libc.so.6")],
            symbols: vec![(ENTRY.as_bytes(), 1, 7, 0x40), (b"PyModule_Create2", 1, 0, 0)],
            version: "GLIBC_2.17",
            sections: true,
            found_by: None,
        }
    }

    /// The file: everything lies in one segment, at the address that is its place in the file.
    fn bytes(&self) -> Vec<u8> {
        let mut names = vec![0];
        let mut name = |text: &[u8]| {
            let place = names.len();
            names.extend_from_slice(text);
            names.push(0);
            place
        };
        let mut symbols = vec![0; 24];
        for (text, binding, section, value) in &self.symbols {
            symbols.extend((name(text) as u32).to_le_bytes());
            symbols.extend([binding << 4 | 2, 0]);
            symbols.extend(section.to_le_bytes());
            symbols.extend(value.to_le_bytes());
            symbols.extend(0u64.to_le_bytes());
        }
        let mut needs = Vec::new();
        let (file, version) = (name(b"libc.so.6") as u32, name(self.version.as_bytes()) as u32);
        needs.extend([1u16, 1].map(u16::to_le_bytes).concat());
        needs.extend([file, 16, 0].map(u32::to_le_bytes).concat());
        needs.extend(0u32.to_le_bytes());
        needs.extend([0u16, 2].map(u16::to_le_bytes).concat());
        needs.extend([version, 0].map(u32::to_le_bytes).concat());
        let mut entries: Vec<(u64, u64)> = self.numbers.clone();
        entries.extend(self.strings.iter().map(|(tag, text)| (*tag, name(text) as u64)));

        let start = 64 + 3 * 56;
        let symbols_at = (start + names.len()).next_multiple_of(8);
        let needs_at = symbols_at + symbols.len();
        let last = self.symbols.len() as u64;
        let (finds, tags): (Vec<u8>, Vec<u64>) = match self.found_by {
            None => (vec![], vec![]),
            // Address, type 1 with the symbol, addend.
            Some(Table::Relocations) => ([0, last << 32 | 1, 0].map(u64::to_le_bytes).concat(), vec![7, 8]),
            Some(Table::PltRelocations) => {
                ([0, last << 32 | 7, 0].map(u64::to_le_bytes).concat(), vec![23, 2])
            }
            Some(Table::Hash) => ([1, last as u32 + 1].map(u32::to_le_bytes).concat(), vec![4]),
            // One bucket from symbol 1 on, one word of the filter, and the chain's end at the last.
            Some(Table::GnuHash) => {
                let mut words = vec![1u32, 1, 1, 0, 0, 0, 1];
                words.extend((1..=last).map(|symbol| u32::from(symbol == last)));
                (words.into_iter().flat_map(u32::to_le_bytes).collect(), vec![0x6fff_fef5])
            }
        };
        let finds_at = needs_at + needs.len();
        let dynamic_at = (finds_at + finds.len()).next_multiple_of(8);
        entries
            .extend(tags.iter().zip([finds_at as u64, finds.len() as u64]).map(|(tag, value)| (*tag, value)));
        entries.extend([
            (DT_STRTAB, start as u64),
            (DT_SYMTAB, symbols_at as u64),
            (DT_VERNEED, needs_at as u64),
            (0, 0),
        ]);
        let dynamic: Vec<u8> =
            entries.iter().flat_map(|(tag, value)| [*tag, *value]).flat_map(u64::to_le_bytes).collect();
        let heads_at = dynamic_at + dynamic.len();

        let mut file = b"\x7fELF\x02\x01\x01".to_vec();
        file.resize(16, 0);
        file.extend([self.kind, self.machine].map(u16::to_le_bytes).concat());
        file.extend(1u32.to_le_bytes());
        let heads = if self.sections { heads_at as u64 } else { 0 };
        file.extend([0, 64, heads].map(u64::to_le_bytes).concat());
        file.extend(0u32.to_le_bytes());
        let (count, names_in) = if self.sections { (5, 1) } else { (0, 0) };
        file.extend([64u16, 56, 3, 64, count, names_in].map(u16::to_le_bytes).concat());
        let segment = |kind: u32, flags: u32, at: usize, size: usize| -> Vec<u8> {
            let words = [at, at, at, size, size, 8].map(|word| (word as u64).to_le_bytes());
            [[kind, flags].map(u32::to_le_bytes).concat(), words.concat()].concat()
        };
        file.extend(segment(1, 5, 0, heads_at));
        file.extend(segment(2, 6, dynamic_at, dynamic.len()));
        // A segment of no meaning where there is none for the stack.
        file.extend(segment(self.stack.map_or(0, |_| 0x6474_e551), self.stack.unwrap_or(0), 0, 0));
        file.extend(names.iter());
        file.resize(symbols_at, 0);
        file.extend([symbols.as_slice(), &needs, &finds].concat());
        file.resize(dynamic_at, 0);
        file.extend(&dynamic);
        if self.sections {
            let head = |kind: u32, at: usize, size: usize, link: u32, info: u32, each: u64| -> Vec<u8> {
                let words = [2, at as u64, at as u64, size as u64].map(u64::to_le_bytes).concat();
                let tail = [8, each].map(u64::to_le_bytes).concat();
                let parts = [0, kind].map(u32::to_le_bytes).concat();
                [parts, words, [link, info].map(u32::to_le_bytes).concat(), tail].concat()
            };
            file.extend([0; 64]);
            file.extend(head(3, start, names.len(), 0, 0, 0));
            file.extend(head(11, symbols_at, symbols.len(), 1, 1, 24));
            file.extend(head(0x6fff_fffe, needs_at, needs.len(), 1, 1, 0));
            file.extend(head(6, dynamic_at, dynamic.len(), 1, 0, 16));
        }
        file
    }
}

#[track_caller]
fn read(sample: &Sample) -> Interface {
    interface(&sample.bytes()).unwrap()
}

#[track_caller]
fn refused(bytes: &[u8], words: &str) {
    let reason = chain(&interface(bytes).expect_err(words));
    assert!(reason.contains(words), "{reason}");
}

fn names_of(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn an_honest_library_is_read() {
    let found = read(&Sample::good());
    let expected = Interface {
        machine: 62,
        needed: vec!["libc.so.6".to_owned()],
        versions: names_of(&["GLIBC_2.17"]),
        undefined: names_of(&["PyModule_Create2"]),
        exported: names_of(&[ENTRY]),
        ..Interface::default()
    };
    assert_eq!(found, expected);
}

#[test]
fn what_is_no_library_of_64_bits_says_so() {
    refused(b"", "not an ELF file");
    refused(b"#!/bin/sh", "not an ELF file");
    refused(b"\x7fELF", "not a 64-bit little-endian");
    let mut bytes = Sample::good().bytes();
    bytes[4] = 1;
    refused(&bytes, "not a 64-bit little-endian");
    bytes[4..6].copy_from_slice(&[2, 2]);
    refused(&bytes, "not a 64-bit little-endian");
    refused(&Sample { kind: 1, ..Sample::good() }.bytes(), "not a shared library");
    refused(&Sample { kind: 2, ..Sample::good() }.bytes(), "not a shared library");
}

#[test]
fn every_truncation_is_refused_and_no_change_of_a_byte_is_a_panic() {
    let whole = Sample::good().bytes();
    for length in 0..whole.len() {
        assert!(interface(&whole[..length]).is_err(), "{length} of {} bytes", whole.len());
    }
    refused(&whole[..whole.len() - 1], "damaged or truncated");
    for place in 0..whole.len() {
        for byte in [0x00, 0x01, 0x7f, 0xff] {
            let mut changed = whole.clone();
            changed[place] = byte;
            let _any = interface(&changed);
            let _any = section(&changed, ".nv_fatbin");
        }
    }
}

#[test]
fn a_file_without_section_headers_is_refused() {
    let bytes = Sample { sections: false, ..Sample::good() }.bytes();
    refused(&bytes, "its section headers are missing");
}

#[test]
fn section_headers_that_describe_other_tables_are_refused() {
    // The last section header is that of the dynamic section, the one before it the version requirements'.
    let whole = Sample::good().bytes();
    for from_end in [4 * 64, 3 * 64, 2 * 64, 64] {
        // Its address, then its place in the file: eight bytes further in both.
        for field in [16, 24] {
            let mut bytes = whole.clone();
            let place = bytes.len() - from_end + field;
            let value = u64::from_le_bytes(bytes[place..place + 8].try_into().unwrap());
            bytes[place..place + 8].copy_from_slice(&(value - 8).to_le_bytes());
            assert!(interface(&bytes).is_err(), "section {from_end} from the end, field {field}");
        }
    }
    let mut bytes = whole;
    let verneed = bytes.len() - 2 * 64;
    bytes[verneed + 4..verneed + 8].copy_from_slice(&1u32.to_le_bytes());
    refused(&bytes, "other tables than the loader reads");
}

/// The loader does not know how long a section is said to be.
#[test]
fn sections_that_are_said_to_be_shorter_hide_nothing() {
    // By a section's place from the end: `.dynsym` is the third, `.dynamic` the first.
    let shorter = |sample: &Sample, from_end: usize, by: u64| {
        let mut bytes = sample.bytes();
        let place = bytes.len() - from_end * 64 + 32;
        let size = u64::from_le_bytes(bytes[place..place + 8].try_into().unwrap());
        bytes[place..place + 8].copy_from_slice(&(size - by).to_le_bytes());
        bytes
    };
    for table in [Table::Relocations, Table::PltRelocations, Table::Hash, Table::GnuHash] {
        let sample = Sample { found_by: Some(table), ..Sample::good() };
        assert_eq!(read(&sample).undefined, names_of(&["PyModule_Create2"]));
        refused(&shorter(&sample, 3, 24), "other tables than the loader reads");
        let whole = sample.bytes();
        for place in 0..whole.len() {
            for byte in [0x00, 0x7f, 0xff] {
                let mut changed = whole.clone();
                changed[place] = byte;
                let _any = interface(&changed);
            }
        }
    }
    refused(&shorter(&Sample::good(), 1, 16), "other tables than the loader reads");
}

#[test]
fn stacks_and_code_are_told() {
    let demands = |sample: Sample| read(&sample).demands;
    let stack = BTreeSet::from([Demand::ExecutableStack]);
    assert_eq!(demands(Sample { stack: Some(7), ..Sample::good() }), stack);
    assert_eq!(demands(Sample { stack: None, ..Sample::good() }), stack, "the default of x86-64");
    let arm = Sample { stack: None, machine: 183, ..Sample::good() };
    assert_eq!((read(&arm).machine, demands(arm)), (183, BTreeSet::new()));
    for (tag, value, demand) in [
        (22, 0, Demand::WritableCode),
        (30, 4, Demand::WritableCode),
        (0x6fff_fffb, 0x0800_0000, Demand::NotOpened),
        (0x6fff_fffb, 0x40, Demand::NotOpened),
    ] {
        let sample = Sample { numbers: vec![(tag, value)], ..Sample::good() };
        assert_eq!(demands(sample), BTreeSet::from([demand]), "{tag:#x}");
    }
    let now = Sample { numbers: vec![(30, 8), (0x6fff_fffb, 1)], ..Sample::good() };
    assert_eq!(demands(now), BTreeSet::new(), "what is bound at once is nothing bad");
}

#[test]
fn every_way_to_bring_a_library_is_told() {
    let strings: Vec<(u64, &[u8])> = vec![
        (1, b"/opt/lib/libx.so"),
        (15, b"/home/me/lib"),
        (29, b"$ORIGIN"),
        (0x7fff_fffd, b"libaux.so"),
        (0x7fff_ffff, b"libfilter.so"),
        (0x6fff_fefc, b"libaudit.so"),
    ];
    let found = read(&Sample { strings, ..Sample::good() });
    assert_eq!(found.needed, ["/opt/lib/libx.so"]);
    assert_eq!(found.search_paths, ["/home/me/lib", "$ORIGIN"]);
    assert_eq!(found.redirected, ["libaux.so", "libfilter.so", "libaudit.so"]);
    let packed = read(&Sample { numbers: vec![(36, 0x40)], version: "GLIBC_2.34", ..Sample::good() });
    assert_eq!(packed.versions, names_of(&["GLIBC_2.34", "GLIBC_ABI_DT_RELR"]));
}

#[test]
fn symbols_are_sorted_by_who_may_use_them() {
    let symbols: Vec<(&[u8], u8, u16, u64)> = vec![
        (ENTRY.as_bytes(), 1, 7, 0x40),
        (b"header_code", 2, 7, 0x48),
        (b"one_for_all", 10, 7, 0x50),
        (b"LIB_1.0", 1, 0xfff1, 0),
        (b"fixed", 1, 0xfff1, 0x1000),
        (b"\xff\xfe", 1, 7, 0x58),
        (b"maybe", 2, 0, 0),
    ];
    let found = read(&Sample { symbols, ..Sample::good() });
    assert_eq!(
        found.exported,
        names_of(&[ENTRY, "fixed", "\u{fffd}\u{fffd}"]),
        "an address makes a name one of the library's"
    );
    assert_eq!((found.weak, found.unique), (names_of(&["header_code"]), names_of(&["one_for_all"])));
    assert_eq!(found.undefined, names_of(&[]));
    let mut bytes = Sample::good().bytes();
    let place =
        bytes.windows(24).position(|entry| entry[4] == 0x12 && entry[8..16] == [0x40, 0, 0, 0, 0, 0, 0, 0]);
    bytes[place.unwrap()..][..4].copy_from_slice(&u32::MAX.to_le_bytes());
    refused(&bytes, "damaged or truncated");
}
