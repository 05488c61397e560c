//! The promises of the door to the file system.

use std::path::PathBuf;

use super::*;
use crate::base::causes::chain;

#[test]
fn replaces_a_folder_as_a_whole() {
    let root = scratch().unwrap();
    let target = root.path().join("dist");
    for text in ["one", "two"] {
        let staged = staging_beside(&target).unwrap();
        write(&staged.path().join("sub/file"), text).unwrap();
        replace_dir(staged, &target).unwrap();
        assert_eq!(read_text(&target.join("sub/file")).unwrap(), text);
    }
    assert_eq!(walk(root.path(), |_| true).unwrap(), [PathBuf::from("dist/sub/file")]);
}

#[test]
fn links_lead_into_no_circle() {
    let root = scratch().unwrap();
    write(&root.path().join("a/file"), "x").unwrap();
    std::os::unix::fs::symlink("..", root.path().join("a/up")).unwrap();
    std::os::unix::fs::symlink("a", root.path().join("b")).unwrap();
    let found = walk(root.path(), |_| true).unwrap();
    assert_eq!(found, [PathBuf::from("a/file"), PathBuf::from("b/file")]);
}

#[test]
fn text_is_read_up_to_a_limit_and_from_files_alone() {
    let root = scratch().unwrap();
    let path = root.path().join("file");
    write(&path, "1234").unwrap();
    assert_eq!(read_text_up_to(&path, 4).unwrap(), "1234");
    assert!(matches!(read_text_up_to(&path, 3), Err(NoText::TooLong)));
    write(&path, [0xff]).unwrap();
    assert!(matches!(read_text_up_to(&path, 3), Err(NoText::NotUtf8)));
    for other in [root.path(), Path::new("/dev/zero"), &root.path().join("gone")] {
        assert!(matches!(read_text_up_to(other, 3), Err(NoText::Failed(_))), "{other:?}");
    }
}

#[test]
fn a_failed_write_names_the_place() {
    let root = scratch().unwrap();
    write(&root.path().join("file"), "x").unwrap();
    let error = write(&root.path().join("file/below"), "y").unwrap_err();
    assert!(error.to_string().contains("file"), "{error}");
}

#[test]
fn unchanged_content_is_not_written_again() {
    let root = scratch().unwrap();
    let path = root.path().join("file");
    assert!(write_if_changed(&path, "x").unwrap());
    assert!(!write_if_changed(&path, "x").unwrap());
}

#[test]
fn a_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for() {
    use rustix::fs::{CWD, Mode, mkfifoat};
    let root = scratch().unwrap();
    let pipe = root.path().join("pipe.h");
    mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
    std::os::unix::fs::symlink("loop", root.path().join("loop")).unwrap();
    std::os::unix::fs::symlink("gone", root.path().join("dangling")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(root.path().join("socket")).unwrap();
    write(&root.path().join("file"), "x").unwrap();
    let copy_of = |path: &Path| copy(path, &root.path().join("copy")).err();
    for read in [
        read(&pipe).err(),
        read_text(&pipe).err(),
        open(&pipe).err(),
        copy_of(&pipe),
        link_or_copy(Path::new("/dev/zero"), &root.path().join("copy")).err(),
    ] {
        let text = chain(&read.expect("an error"));
        assert!(text.contains("not a regular file"), "{text}");
    }
    let (all, irregular) = walk_apart(root.path(), |_| true).unwrap();
    assert_eq!(all.len(), 5, "{all:?}");
    let names: Vec<&Path> = irregular.iter().map(PathBuf::as_path).collect();
    assert_eq!(names, ["dangling", "loop", "pipe.h", "socket"].map(Path::new));
    let why = |name: &str| irregular_why(root.path(), name);
    assert!(why("loop").contains("back to itself") && why("dangling").contains("does not exist"));
    assert!(why("pipe.h").contains("named pipe") && why("socket").contains("socket"));
    assert_eq!(super::irregular(&root.path().join("file")), None);
}

fn irregular_why(root: &Path, name: &str) -> String {
    super::irregular(&root.join(name)).expect("not a regular file")
}

#[test]
fn links_between_empty_folders_end() {
    let root = scratch().unwrap();
    // Every folder leads to all others: without a limit on folders these are 12! paths and no file.
    let names: Vec<String> = (0..12).map(|number| format!("f{number}")).collect();
    for name in &names {
        create_dirs(&root.path().join(name)).unwrap();
        for other in names.iter().filter(|other| *other != name) {
            std::os::unix::fs::symlink(format!("../{other}"), root.path().join(name).join(other)).unwrap();
        }
    }
    let error = walking::up_to(1_000, root.path(), |_| true).unwrap_err();
    let text = chain(&error);
    assert!(text.contains("folders"), "{text}");
}

#[test]
fn a_file_that_may_be_another_one_is_not_read_alone() {
    use std::os::unix::fs::symlink;
    let folder = scratch().unwrap();
    let at = |name: &str| folder.path().join(name);
    write(&at("deep/own"), "text").unwrap();
    write(&at("secret"), "password").unwrap();
    symlink(at("secret"), at("link")).unwrap();
    symlink(at("deep"), at("folder")).unwrap();
    fs::hard_link(at("secret"), at("name")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
        .unwrap();
    let alone = |name: &str| read_alone(&at(name), 4).unwrap();
    assert_eq!(alone("deep/own"), UnfollowedFile::Bytes(b"text".to_vec()));
    assert_eq!(
        (alone("link"), alone("name"), alone("folder")),
        (UnfollowedFile::Link, UnfollowedFile::Link, UnfollowedFile::Link)
    );
    assert_eq!((alone("pipe"), alone("deep")), (UnfollowedFile::Irregular, UnfollowedFile::Irregular));
    assert_eq!(read_alone(&at("deep/own"), 3).unwrap(), UnfollowedFile::TooLong);
    assert!(read_alone(&at("gone"), 3).is_err());
    // Links are listed and not followed.
    let found = walk_unfollowed(folder.path(), |_| true).unwrap();
    let names: Vec<String> = found.iter().map(|path| path.display().to_string()).collect();
    assert_eq!(names, ["deep/own", "folder", "link", "name", "pipe", "secret"]);
    assert_eq!(walk_unfollowed(folder.path(), |_| false).unwrap().len(), 5);
}
