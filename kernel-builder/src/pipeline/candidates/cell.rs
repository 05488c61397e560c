//! The place in which an agent works: a folder with the task, and nothing else of the machine.
//!
//! Owns: what an agent is given, which files it may read and write, how its process is started. Never: reads what it wrote
//! there; `session` does.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kernel_plan::plan::CommandLine;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::agent::program::Started;
use crate::base::become_program::become_with;
use crate::base::process::{self, MARK, Mark};
use crate::base::{confine, disk, env, files};
use crate::exit::{self, Failure};

/// The role of the process that confines itself and becomes the agent.
pub(crate) const ROLE: &str = "agent";
/// Folders of the machine that programs need and that hold no user's files.
const SYSTEM: [&str; 21] = [
    "/bin",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/pki",
    "/etc/resolv.conf",
    "/etc/ssl",
    "/lib",
    "/lib32",
    "/lib64",
    "/nix/store",
    "/proc",
    "/sbin",
    "/sys/fs/cgroup",
    "/usr",
];
/// Devices without content.
const DEVICES: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];
/// Folders of the place.
const WORK: &str = "work";
const HOME: &str = "home";
const CONFIG: &str = "config";
const TEMPORARY: &str = "tmp";
/// The socket of the tools, and what the process is told.
const SOCKET: &str = "tools";
const ORDERS: &str = "orders.json";

/// The place.
pub(crate) struct Cell {
    folder: TempDir,
    mark: Mark,
}

/// What the process is told before it becomes the agent.
#[derive(Debug, Serialize, Deserialize)]
struct Orders {
    program: PathBuf,
    argv: Vec<String>,
    env: BTreeMap<String, String>,
    cwd: PathBuf,
    /// What it may read and what it may write; nothing where the operating system cannot confine it.
    confined: Option<(Vec<PathBuf>, Vec<PathBuf>)>,
}

impl Cell {
    /// An empty place.
    ///
    /// # Errors
    /// There is no room for one.
    pub(crate) fn new() -> Result<Self, Failure> {
        let cell = Self { folder: files::scratch()?, mark: Mark::draw() };
        for name in [WORK, HOME, CONFIG, TEMPORARY] {
            files::create_dirs(&cell.at(name))?;
        }
        Ok(cell)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The folder in which the agent writes.
    pub(crate) fn work(&self) -> PathBuf {
        self.at(WORK)
    }

    /// Its configuration.
    pub(crate) fn config(&self) -> PathBuf {
        self.at(CONFIG)
    }

    /// Its home.
    pub(crate) fn home(&self) -> PathBuf {
        self.at(HOME)
    }

    /// Where its tools listen.
    pub(crate) fn socket(&self) -> PathBuf {
        self.at(SOCKET)
    }

    /// The mark of all its processes.
    pub(crate) fn mark(&self) -> &Mark {
        &self.mark
    }

    /// Puts a file into the agent's folder.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn put(&self, name: &str, text: &str) -> Result<(), Failure> {
        Ok(files::write(&self.work().join(name), text)?)
    }

    /// The command that becomes the agent, with `passed` of the environment and no other variable of it.
    ///
    /// # Errors
    /// A file of its configuration cannot be written.
    pub(crate) fn line(
        &self,
        program: &Path,
        started: &Started,
        passed: BTreeMap<String, String>,
    ) -> Result<CommandLine, Failure> {
        for (folder, texts) in [(self.config(), &started.config), (self.home(), &started.home)] {
            for (name, text) in texts {
                files::write(&folder.join(name), text)?;
            }
        }
        let text = |path: PathBuf| path.display().to_string();
        let mut variables = BTreeMap::from([
            ("HOME".to_owned(), text(self.home())),
            ("TMPDIR".to_owned(), text(self.at(TEMPORARY))),
            ("TERM".to_owned(), "dumb".to_owned()),
            ("LANG".to_owned(), "C.UTF-8".to_owned()),
            (MARK.to_owned(), self.mark.value().to_owned()),
        ]);
        variables.extend(env::text("PATH").map(|path| ("PATH".to_owned(), path)));
        variables.extend(started.env.clone());
        variables.extend(passed);
        let confined = confine::is_possible().then(|| (self.readable(program), self.writable()));
        let orders = Orders {
            program: program.to_owned(),
            argv: started.argv.clone(),
            env: variables,
            cwd: self.work(),
            confined,
        };
        let path = self.at(ORDERS);
        files::write_private(&path, &serde_json::to_vec(&orders).unwrap_or_default())?;
        let line = CommandLine::new(env::own_program()).args(["--worker", ROLE]).path(&path);
        Ok(line.env(MARK, self.mark.value()))
    }

    /// The system, this program, and where the agent is installed.
    fn readable(&self, program: &Path) -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).collect();
        all.push(env::own_program());
        all.push(program.to_owned());
        // A script's interpreter may be installed elsewhere.
        let programs = [Some(program.to_owned()), process::find("node")];
        let private: Vec<PathBuf> = env::text("HOME").map(PathBuf::from).into_iter().collect();
        all.extend(programs.into_iter().flatten().map(|program| installed(&disk::real(&program), &private)));
        all
    }

    fn writable(&self) -> Vec<PathBuf> {
        let own = [WORK, HOME, CONFIG, TEMPORARY].map(|name| self.at(name));
        own.into_iter().chain(DEVICES.map(PathBuf::from)).collect()
    }
}

/// The folder that a program was installed into: that of its package if it is one of npm's, else the one above `bin`, else
/// its own. A folder with one of `private` in it is none.
fn installed(program: &Path, private: &[PathBuf]) -> PathBuf {
    let folder = program.parent().unwrap_or(program);
    let modules =
        program.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == "node_modules"));
    let is_bin = folder.file_name().is_some_and(|name| name == "bin");
    let above = folder.parent().filter(|above| is_bin && files::is_dir(&above.join("lib")));
    let is_private = |folder: &Path| private.iter().any(|private| private.starts_with(folder));
    let mut places = modules.into_iter().chain(above).chain([folder]);
    places.find(|folder| !is_private(folder)).unwrap_or(program).to_owned()
}

/// The role: confines this process and becomes the agent.
pub(crate) fn run() -> u8 {
    let words = env::worker_words();
    let Some(path) = words.first().map(PathBuf::from) else { return exit::USAGE };
    let Ok(orders) = files::read(&path) else { return exit::INTERNAL };
    let Ok(orders) = serde_json::from_slice::<Orders>(&orders) else { return exit::USAGE };
    // It holds a key.
    let _gone = files::remove_file(&path);
    if let Some((readable, writable)) = &orders.confined
        && confine::to_folders(readable, writable).is_err()
    {
        return exit::INTERNAL;
    }
    let _why = become_with(&orders.program, &orders.argv, &orders.env, &orders.cwd);
    exit::INTERNAL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_may_read_its_package_and_not_the_home_that_it_lies_in() {
        let folder = files::scratch().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in
            ["npm/lib/node_modules/a/cli.js", "tool/bin/agent", "tool/lib/x", "home/bin/agent", "home/lib/x"]
        {
            files::write(&at(name), "").unwrap();
        }
        let installed = |name: &str| installed(&at(name), &[at("home")]);
        assert_eq!(installed("npm/lib/node_modules/a/cli.js"), at("npm/lib/node_modules"));
        assert_eq!(installed("tool/bin/agent"), at("tool"));
        assert_eq!(installed("home/bin/agent"), at("home/bin"));
        assert_eq!(installed("home/agent"), at("home/agent"));
    }
}
