//! What `update` writes, as the official parser reads it.

use kernel_plan::diagnostic::SourceFile;
use kernel_plan::spec;

use super::Official;
use super::corpus::files;

#[test]
fn the_official_parser_reads_what_update_writes() {
    let Some(mut official) = Official::start() else { return };
    let license = "Apache-2.0".parse().expect("a license");
    let (mut same, mut now) = (0, 0);
    for (name, text) in files("valid").into_iter().chain(files("invalid")) {
        if !name.starts_with("edition-") {
            continue;
        }
        let Ok(update) = spec::update(&SourceFile::new("build.toml", text.clone()), Some(&license)) else {
            continue;
        };
        let after = official.read(&update.text);
        assert!(after.is_ok(), "{name}: {after:?}\n{}", update.text);
        match official.read(&text) {
            Ok(before) => {
                assert_eq!(after, Ok(before), "{name}");
                same += 1;
            }
            // Edition 3 and older, and edition 5 without its number.
            Err(_) => now += 1,
        }
    }
    assert!(same >= 4 && now >= 10, "{same} files as before, {now} that were not read");
}
