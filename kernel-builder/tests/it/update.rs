//! `update`: what is written, what is told, and that nothing is half-done.

use std::os::unix::fs::{PermissionsExt, symlink};

use super::sandbox::{Sandbox, tree};

const EDITION_3: &str =
    "# a kernel\r\n[general]\r\nname = \"fast-norm\" # its name\r\nbackends = [\"cpu\"]\r\n\r\n# no code\r\n";
const EDITION_5: &str = "# a kernel\r\n[general]\r\nname = \"fast-norm\" # its name\r\nversion = 1\r\nedition = 5\r\n\
                         license = \"MIT\"\r\nbackends = [\"cpu\"]\r\n\r\n# no code\r\n\r\n[torch-noarch]\r\n";

fn with(text: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("work/fast-norm/build.toml", text);
    sandbox
}

#[test]
fn writes_once_and_tells_each_line() {
    let sandbox = with(EDITION_3);
    let updated = sandbox.run(&["update", "fast-norm", "--license", "MIT"]);
    assert_eq!(updated.code, 0, "{}", updated.stderr);
    assert_eq!(sandbox.read("work/fast-norm/build.toml"), EDITION_5);
    insta::assert_snapshot!(updated.stdout, @r#"
    fast-norm/build.toml: updated from edition 3 to 5
        4 + version = 1
        5 + edition = 5
        6 + license = "MIT"
       10 +
       11 + [torch-noarch]
    "#);
    let again = sandbox.run(&["update", "fast-norm"]);
    assert_eq!((again.code, again.stdout.as_str()), (0, "fast-norm/build.toml is already in edition 5\n"));
    assert_eq!(sandbox.read("work/fast-norm/build.toml"), EDITION_5);
    assert_eq!(tree(&sandbox.work()), ["fast-norm/build.toml"]);
}

#[test]
fn takes_the_file_itself_and_says_why_it_cannot_be_read() {
    let sandbox = with(EDITION_3);
    let updated = sandbox.run(&["update", "fast-norm/build.toml", "--license", "MIT"]);
    assert_eq!(updated.code, 0, "{}", updated.stderr);
    assert_eq!(sandbox.read("work/fast-norm/build.toml"), EDITION_5);
    sandbox.write("work/folder/build.toml/file", "");
    sandbox.run(&["update", "folder"]).refused(10, &["spec::unreadable"]);
}

#[test]
fn check_changes_nothing_and_fails() {
    let sandbox = with(EDITION_3);
    let checked =
        sandbox.run(&["update", "fast-norm", "--check", "--license", "MIT", "--message-format", "json"]);
    assert_eq!(checked.code, 10);
    let result = checked.event("result");
    assert_eq!((&result["needed"], &result["written"]), (&true.into(), &false.into()));
    assert_eq!((&result["from"], &result["to"]), (&3.into(), &5.into()));
    assert_eq!(result["changes"][0]["line"], 4);
    assert_eq!(result["changes"][0]["new"], "version = 1");
    assert_eq!(sandbox.read("work/fast-norm/build.toml"), EDITION_3);
    let current = with(EDITION_5);
    assert_eq!(current.run(&["update", "fast-norm", "--check"]).code, 0);
}

#[test]
fn what_is_left_to_correct_is_told_and_fails() {
    let sandbox = with(&EDITION_3.replace("fast-norm\" #", "fast_norm\" #"));
    let updated = sandbox.run(&["update", "fast-norm", "--license", "MIT"]);
    assert_eq!(updated.code, 0, "{}", updated.stderr);
    assert_eq!(sandbox.read("work/fast-norm/build.toml"), EDITION_5);
    let sandbox = with(&EDITION_3.replace("fast-norm\" #", "Fast_Norm\" #"));
    let updated = sandbox.run(&["update", "fast-norm", "--license", "MIT"]);
    updated.refused(10, &["`Fast_Norm` is not a kernel name", "cannot fix"]);
    // What could be converted is.
    assert!(sandbox.read("work/fast-norm/build.toml").contains("edition = 5"));
    sandbox.run(&["update", "fast-norm"]).refused(10, &["`Fast_Norm` is not a kernel name"]);
}

#[test]
fn what_cannot_be_updated_stays_as_it_is() {
    let sandbox = with(EDITION_3);
    sandbox.run(&["update", "fast-norm"]).refused(10, &["spec::missing_key", "--license Apache-2.0"]);
    sandbox.run(&["update", "fast-norm", "--check"]).refused(10, &["spec::missing_key"]);
    sandbox.run(&["update", "fast-norm", "--license", ""]).refused(2, &["SPDX"]);
    assert_eq!(sandbox.read("work/fast-norm/build.toml"), EDITION_3);
    sandbox.write("work/fast-norm/build.toml", "[general\n");
    sandbox.run(&["update", "fast-norm"]).refused(10, &["spec::syntax"]);
    sandbox.run(&["update", "nowhere"]).refused(10, &["spec::no_project"]);
    assert_eq!(tree(&sandbox.work()), ["fast-norm/build.toml"]);
}

#[test]
fn permissions_and_links_stay() {
    let sandbox = with(EDITION_3);
    let path = sandbox.path("work/fast-norm/build.toml");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o440)).expect("a mode");
    let refused = sandbox.run(&["update", "fast-norm", "--license", "MIT"]);
    refused.refused(1, &["base::file", "read-only"]);
    assert_eq!(sandbox.read("work/fast-norm/build.toml"), EDITION_3);

    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).expect("a mode");
    std::fs::create_dir(sandbox.path("work/linked")).expect("a folder");
    symlink("../fast-norm/build.toml", sandbox.path("work/linked/build.toml")).expect("a link");
    assert_eq!(sandbox.run(&["update", "linked", "--license", "MIT"]).code, 0);
    assert_eq!(sandbox.read("work/fast-norm/build.toml"), EDITION_5);
    assert!(sandbox.path("work/linked/build.toml").is_symlink());
    let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    assert_eq!(tree(&sandbox.path("work/fast-norm")), ["build.toml"]);
}

#[test]
fn other_errors_are_told_and_stand_in_nobodys_way() {
    let sandbox =
        with("[general]\nname = \"x-y\"\nversion = 1\nlicense = \"MIT\"\nbackends = [\"gpu\"]\n[torch]\n");
    let updated = sandbox.run(&["update", "fast-norm"]);
    updated.refused(10, &["`gpu`", "cannot fix"]);
    assert!(sandbox.read("work/fast-norm/build.toml").contains("version = 1\nedition = 5\n"));
}
