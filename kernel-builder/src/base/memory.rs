//! How much memory the machine can still give, and how much a child and its descendants hold.
//!
//! Owns: reading `/proc` and the limits of control groups, version 1 and 2 (proc(5), the kernel's
//! Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst).
//! Also makes a folder in memory, where there is room.
//! Never: decides what may run.
#![expect(
    clippy::disallowed_methods,
    reason = "the kernel's tables are read as they are, not as files of a project"
)]

use std::fs::{read_dir, read_to_string};
use std::path::{Path, PathBuf};

use super::files::{self, FileError};

/// Memory of the machine or, where one is set, of the limit that this process lives under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Bytes in all.
    pub total: u64,
    /// Bytes that can be had without pushing anything out but caches.
    pub available: u64,
}

/// What the machine and every control group above this process leave; nothing where the system does not say.
pub fn now() -> Option<Memory> {
    let machine = meminfo(&read_to_string("/proc/meminfo").ok()?)?;
    let groups = read_to_string("/proc/self/cgroup").unwrap_or_default();
    Some(tightest(machine, Path::new("/sys/fs/cgroup"), &groups))
}

/// How often the system has killed a process for want of memory since it was started.
pub fn killed_for_memory() -> Option<u64> {
    field(&read_to_string("/proc/vmstat").ok()?, "oom_kill")
}

/// `/proc/meminfo`: kibibytes.
fn meminfo(text: &str) -> Option<Memory> {
    let of = |name| field(text, name).map(|kibibytes| kibibytes * 1024);
    Some(Memory { total: of("MemTotal:")?, available: of("MemAvailable:")? })
}

/// The number behind a name at the start of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some(name)).then(|| words.next()?.parse().ok())?
    })
}

/// The names under which a version of control groups says what may be used, what is used, and what of that are caches
/// that can go.
struct Names {
    limit: &'static str,
    used: &'static str,
    idle: &'static str,
}

const V2: Names = Names { limit: "memory.max", used: "memory.current", idle: "inactive_file" };
const V1: Names =
    Names { limit: "memory.limit_in_bytes", used: "memory.usage_in_bytes", idle: "total_inactive_file" };

/// `machine`, or less where a group of `groups` (the text of `/proc/self/cgroup`) or one above it has a limit.
fn tightest(machine: Memory, root: &Path, groups: &str) -> Memory {
    let mut least = machine;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let (names, mount) = match controllers {
            "" => (&V2, root.to_owned()),
            _ if controllers.split(',').any(|name| name == "memory") => (&V1, root.join("memory")),
            _ => continue,
        };
        // In a container the path may be one that only the host sees; then its end is the mount itself.
        let mut place = mount.join(path.trim_start_matches('/'));
        loop {
            if let Some(group) = limit_of(&place, names) {
                least.total = least.total.min(group.total);
                least.available = least.available.min(group.available);
            }
            if place == mount || !place.pop() {
                break;
            }
        }
    }
    least
}

/// What one group leaves; nothing where it has no limit.
fn limit_of(group: &Path, names: &Names) -> Option<Memory> {
    let number = |name: &str| read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
    let total = number(names.limit)?;
    let used = number(names.used)?;
    let idle = field(&read_to_string(group.join("memory.stat")).unwrap_or_default(), names.idle).unwrap_or(0);
    Some(Memory { total, available: total.saturating_sub(used.saturating_sub(idle)) })
}

/// Resident memory of a process and of all that it has started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tree {
    /// Bytes held now by all of them. What they share counts for each; compilers share little more than libraries.
    pub resident: u64,
    /// The most that a single one of them has held so far.
    pub largest: u64,
}

/// Samples a process and its descendants; zeros once it is gone.
pub fn tree(root: u32) -> Tree {
    let mut sum = Tree::default();
    let mut pending = vec![root];
    let mut seen = 0;
    while let Some(process) = pending.pop() {
        let folder = PathBuf::from(format!("/proc/{process}"));
        let Ok(status) = read_to_string(folder.join("status")) else { continue };
        let kibibytes = |name| field(&status, name).unwrap_or(0) * 1024;
        sum.resident += kibibytes("VmRSS:");
        sum.largest = sum.largest.max(kibibytes("VmHWM:"));
        seen += 1;
        // A compiler has a handful of processes; one that forks without end is not followed without end.
        if seen < 256 {
            pending.extend(children(&folder));
        }
    }
    sum
}

/// The processes that any thread of a process has started.
fn children(process: &Path) -> Vec<u32> {
    let Ok(threads) = read_dir(process.join("task")) else { return Vec::new() };
    let of_thread = |thread: PathBuf| read_to_string(thread.join("children")).unwrap_or_default();
    let lists: Vec<String> = threads.flatten().map(|thread| of_thread(thread.path())).collect();
    lists.iter().flat_map(|list| list.split_whitespace()).filter_map(|id| id.parse().ok()).collect()
}

/// Resident bytes of one process alone; zero once it is gone.
pub fn resident(process: u32) -> u64 {
    let pages = read_to_string(format!("/proc/{process}/statm"))
        .ok()
        .and_then(|text| text.split_whitespace().nth(1)?.parse::<u64>().ok())
        .unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// A temporary folder for files that are read soon and once: in memory where there is room for four times so many bytes,
/// else where all temporary files are.
///
/// # Errors
/// When no folder can be made.
pub fn scratch(bytes: u64) -> Result<tempfile::TempDir, FileError> {
    const SHARED_MEMORY: &str = "/dev/shm";
    let folder = Path::new(SHARED_MEMORY);
    let room = files::free_space(folder).is_some_and(|free| files::is_dir(folder) && free / 4 > bytes);
    let in_memory = || tempfile::Builder::new().prefix("kernelwright-").tempdir_in(folder).ok();
    room.then(in_memory).flatten().map_or_else(files::scratch, Ok)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::files;

    const MACHINE: Memory = Memory { total: 16 << 30, available: 12 << 30 };

    #[test]
    fn reads_the_machines_table() {
        let text = "MemTotal:       16384 kB\nMemFree:  1 kB\nMemAvailable:    8192 kB\n";
        assert_eq!(meminfo(text), Some(Memory { total: 16 << 20, available: 8 << 20 }));
        assert_eq!(meminfo("MemTotal: 1 kB\n"), None, "kernels before 3.14 do not say");
    }

    #[test]
    fn the_tightest_group_counts_and_its_idle_caches_can_go() {
        let root = files::scratch().unwrap();
        let write = |path: &str, text: &str| files::write(&root.path().join(path), text).unwrap();
        write("a/memory.max", "8589934592\n");
        write("a/memory.current", "3221225472\n");
        write("a/memory.stat", "anon 1\ninactive_file 1073741824\n");
        write("a/b/memory.max", "max\n");
        write("a/b/memory.current", "1\n");
        let found = tightest(MACHINE, root.path(), "0::/a/b\n");
        assert_eq!(found, Memory { total: 8 << 30, available: 6 << 30 });
    }

    #[test]
    fn the_first_version_is_read_and_a_group_of_the_host_is_the_mount() {
        let root = files::scratch().unwrap();
        let write = |path: &str, text: &str| files::write(&root.path().join(path), text).unwrap();
        write("memory/memory.limit_in_bytes", "2147483648\n");
        write("memory/memory.usage_in_bytes", "2147483648\n");
        let found = tightest(MACHINE, root.path(), "5:cpu:/x\n4:memory:/docker/abc\n0::/\n");
        assert_eq!(found, Memory { total: 2 << 30, available: 0 });
        // "No limit" is a number near the greatest there is.
        write("memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(tightest(MACHINE, root.path(), "4:memory:/\n"), MACHINE);
    }

    #[test]
    fn this_process_is_resident() {
        let own = tree(std::process::id());
        assert!(own.resident > 1 << 20 && own.largest >= resident(std::process::id()) / 2, "{own:?}");
        assert_eq!(tree(u32::MAX), Tree::default());
        let machine = now().expect("linux says");
        assert!(machine.available <= machine.total, "{machine:?}");
    }
}
