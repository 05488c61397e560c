//! The cache as a whole: of many threads one makes, and what is damaged is made again.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::base::files::scratch;

/// Asks for a key; how often it has been made goes up.
fn ask(cache: &Cache, key: &[u8], made: &AtomicUsize) -> CacheEntry {
    let outcome = cache.once_told::<FileError>(&Digest::blake3(key), || {
        made.fetch_add(1, Ordering::Relaxed);
        Ok(CacheEntry { bytes: b"made".to_vec(), log: "a warning".to_owned(), lasting: true })
    });
    outcome.unwrap().0
}

fn flip_every_file(root: &Path) -> usize {
    let names = files::walk(root, |_| true).unwrap();
    for name in &names {
        let place = root.join(name);
        let mut bytes = files::read(&place).unwrap();
        let middle = bytes.len() / 2;
        if let Some(byte) = bytes.get_mut(middle) {
            *byte ^= 0x10;
        }
        files::write(&place, bytes).unwrap();
    }
    names.len()
}

#[test]
fn reads_dependency_files() {
    let text = "out/a.o : src/a.cu \\\n /inc/b\\ c.h \\\n  /inc/d.h /inc/d.h\n";
    assert_eq!(parse_depfile(text), ["/inc/b c.h", "/inc/d.h", "src/a.cu"].map(PathBuf::from));
    assert!(parse_depfile("nonsense").is_empty());
}

#[test]
fn of_many_threads_one_makes() {
    let root = scratch().unwrap();
    let (cache, made) = (Cache::new(root.path()), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(ask(&cache, b"k", &made).log, "a warning"));
        }
    });
    assert_eq!(made.into_inner(), 1);
}

#[test]
fn what_does_not_last_is_not_kept() {
    let root = scratch().unwrap();
    let cache = Cache::new(root.path());
    for _ in 0..2 {
        let made = CacheEntry { bytes: b"x".to_vec(), log: String::new(), lasting: false };
        let (_, fresh) = cache.once_told::<FileError>(&Digest::blake3(b"k"), || Ok(made)).unwrap();
        assert!(fresh);
    }
}

#[test]
fn a_changed_header_misses_and_the_old_one_hits_again() {
    let root = scratch().unwrap();
    let project = root.path().join("project");
    let (header, object) = (project.join("a.h"), project.join("a.o"));
    let key = Digest::blake3(b"key");
    let names = [PathBuf::from("a.h")];
    for (text, made) in [("one", "object one"), ("three", "object three")] {
        // A run each: within one, files are looked at once.
        let cache = Cache::new(&root.path().join("cache"));
        files::write(&header, text).unwrap();
        assert!(cache.look_up(&key, &project).is_none());
        let seen = cache.observe(&project, &names, i128::MAX).unwrap();
        cache.remember(&key, made.as_bytes(), seen, "", String::new()).unwrap();
    }
    files::write(&header, "one").unwrap();
    let cache = Cache::new(&root.path().join("cache"));
    let hit = cache.look_up(&key, &project).unwrap();
    assert!(cache.restore(&hit.object, &object).unwrap());
    assert_eq!(files::read_text(&object).unwrap(), "object one");
}

#[test]
fn a_file_that_changes_while_the_compiler_reads_is_noticed() {
    let root = scratch().unwrap();
    let cache = Cache::new(&root.path().join("cache"));
    let (before, header) = (root.path().join("before"), root.path().join("a.h"));
    files::write(&header, "one").unwrap();
    files::backdate(&header, std::time::Duration::from_secs(60));
    files::write(&before, "").unwrap();
    let since = files::stamp(&before).unwrap().1;
    let names = [PathBuf::from("a.h")];
    let seen = cache.observe(root.path(), &names, since).unwrap();
    assert!(cache.still(root.path(), &seen));
    files::backdate(&before, std::time::Duration::from_secs(60));
    let since = files::stamp(&before).unwrap().1;
    files::write(&header, "two").unwrap();
    assert!(!cache.still(root.path(), &seen));
    assert!(cache.observe(root.path(), &names, since).is_none());
}

#[test]
fn every_damaged_file_costs_time_and_nothing_else() {
    let root = scratch().unwrap();
    let made = AtomicUsize::new(0);
    let key = Digest::blake3(b"unit");
    for round in 1..=3 {
        let cache = Cache::new(root.path());
        assert_eq!(ask(&cache, b"k", &made).bytes, b"made");
        assert_eq!(ask(&cache, b"k", &made).bytes, b"made");
        assert_eq!(made.load(Ordering::Relaxed), round, "made once a round");
        let object = root.path().join("project.o");
        let intact = match cache.look_up(&key, root.path()) {
            Some(hit) => cache.restore(&hit.object, &object).unwrap(),
            None => false,
        };
        assert!(!intact);
        cache.remember(&key, b"an object", Vec::new(), "", String::new()).unwrap();
        let hit = cache.look_up(&key, root.path()).unwrap();
        assert!(cache.restore(&hit.object, &object).unwrap());
        assert_eq!(files::read(&object).unwrap(), b"an object");
        files::remove_file(&object).unwrap();
        assert_eq!(flip_every_file(root.path()), 4, "two objects, a step and a unit");
    }
}

#[test]
fn an_object_without_its_entry_and_an_entry_without_its_object_are_absent() {
    let root = scratch().unwrap();
    let made = AtomicUsize::new(0);
    for (round, gone) in ["objects", "steps", "none"].into_iter().enumerate() {
        let cache = Cache::new(root.path());
        ask(&cache, b"k", &made);
        assert_eq!(made.load(Ordering::Relaxed), round + 1);
        files::remove_dir(&root.path().join(gone)).unwrap();
    }
}

#[test]
fn machines_share_what_they_make_and_check_it() {
    let root = scratch().unwrap();
    let share = root.path().join("share");
    files::create_dirs(&share).unwrap();
    let machine =
        |name: &str| Cache { remote: Some(Remote::at(&share)), ..Cache::new(&root.path().join(name)) };
    let made = AtomicUsize::new(0);
    ask(&machine("one"), b"k", &made);
    assert_eq!(ask(&machine("two"), b"k", &made).log, "a warning");
    assert_eq!(made.load(Ordering::Relaxed), 1, "the second machine found it");
    assert_eq!(ask(&Cache::new(&root.path().join("two")), b"k", &made).bytes, b"made");
    assert_eq!(made.load(Ordering::Relaxed), 1, "and has it for itself now");
    assert_eq!(flip_every_file(&share), 2);
    assert_eq!(ask(&machine("three"), b"k", &made).bytes, b"made");
    assert_eq!(made.load(Ordering::Relaxed), 2, "what is damaged there is made here");
    ask(&machine("four"), b"k", &made);
    assert_eq!(made.load(Ordering::Relaxed), 2, "and is intact there again");
}

#[test]
fn a_share_that_cannot_be_reached_is_told_once() {
    let root = scratch().unwrap();
    let made = AtomicUsize::new(0);
    let gone = Remote::at(&root.path().join("gone"));
    let cache = Cache { remote: Some(gone), ..Cache::new(&root.path().join("a")) };
    assert_eq!(ask(&cache, b"k", &made).bytes, b"made");
    assert!(cache.remote.as_ref().and_then(Remote::trouble).is_some_and(|told| told.contains("gone")));
    assert!(!files::exists(&root.path().join("gone")));
    // A file in the place of a folder refuses every write, also for a superuser.
    let share = root.path().join("share");
    files::write(&share.join("objects"), "").unwrap();
    let cache = Cache { remote: Some(Remote::at(&share)), ..Cache::new(&root.path().join("b")) };
    for key in [b"k", b"l"] {
        assert_eq!(ask(&cache, key, &made).bytes, b"made");
    }
    let told = cache.remote.as_ref().and_then(Remote::trouble).unwrap_or_default();
    assert!(told.contains("nothing more was stored"), "{told}");
}
