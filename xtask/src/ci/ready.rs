//! Preparation for the steps: programs, Python packages, projects and a filled cache.
//!
//! Owns: how each is made, once a run and only where a step asks for it. Never: judges anything.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::folders;
use crate::repo;
use crate::talk::{self, Talk};

/// The example that goes through the whole line.
pub(crate) const EXAMPLE: &str = "examples/rms-norm";
/// Folder of all that CI makes, from the root.
const PLACE: &str = "target/ci";
/// Packages that judge our files in the tests, each list by one call of pip: the official parser of build.toml, which
/// needs 25 MB without torch, and flashinfer-bench's models, which need none of its other packages.
const OFFICIAL: &[&[&str]] =
    &[&["kernels==0.17.2"], &["pydantic==2.14.3"], &["--no-deps", "flashinfer-bench==0.1.2"]];
/// What checks the harness. basedpyright brings its own Node.js, as a wheel; pyright itself would fetch one.
const PYTHON_TOOLS: &[&[&str]] = &[&["ruff==0.17.6", "basedpyright==1.40.2", "pytest==9.2.0"]];
/// What makes a site of docs/ (mkdocs.yml).
const SITE_TOOLS: &[&[&str]] = &[&["mkdocs==1.6.1"]];
/// Python packages that control a browser. The browser itself must be installed.
const PAGE_TOOLS: &[&[&str]] = &[&["playwright==1.65.2"]];
/// Versions of torch that the projects are loaded with.
const TORCHES: &[&str] = &["2.10", "2.11", "2.15"];

type Preparation<T> = OnceLock<Result<T, String>>;

/// Each thing is made when it is first asked for.
pub(crate) struct Ready {
    root: PathBuf,
    programs: Preparation<PathBuf>,
    official: Preparation<PathBuf>,
    python_tools: Preparation<PathBuf>,
    site_tools: Preparation<PathBuf>,
    page_tools: Preparation<PathBuf>,
    templates: Preparation<PathBuf>,
    example: Preparation<()>,
    torch: Preparation<()>,
    torches: Preparation<()>,
}

impl Ready {
    pub(crate) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            programs: OnceLock::new(),
            official: OnceLock::new(),
            python_tools: OnceLock::new(),
            site_tools: OnceLock::new(),
            page_tools: OnceLock::new(),
            templates: OnceLock::new(),
            example: OnceLock::new(),
            torch: OnceLock::new(),
            torches: OnceLock::new(),
        }
    }

    /// A call of `kernelwright` of this checkout, which is built first.
    ///
    /// # Errors
    /// It does not compile.
    pub(crate) fn kernelwright(&self, arguments: &[&str]) -> Result<Command, String> {
        let program = self.programs.get_or_init(|| {
            let mut build = repo::cargo();
            build.args(["build", "--quiet", "--bin", "kernelwright", "--bin", "kernelwright-hub"]);
            Talk::Live.run(build.current_dir(&self.root))?;
            repo::beside_this_one("kernelwright")
        });
        let mut command = Command::new(program.clone()?);
        command.args(arguments).current_dir(&self.root);
        Ok(command)
    }

    /// A folder of official Python packages.
    ///
    /// # Errors
    /// pip fails.
    pub(crate) fn official(&self) -> Result<PathBuf, String> {
        self.official.get_or_init(|| self.install("official", OFFICIAL)).clone()
    }

    /// A folder with ruff, basedpyright and pytest, as Python packages.
    ///
    /// # Errors
    /// pip fails.
    pub(crate) fn python_tools(&self) -> Result<PathBuf, String> {
        self.python_tools.get_or_init(|| self.install("python-tools", PYTHON_TOOLS)).clone()
    }

    /// A folder with MkDocs.
    ///
    /// # Errors
    /// pip fails.
    pub(crate) fn site_tools(&self) -> Result<PathBuf, String> {
        self.site_tools.get_or_init(|| self.install("site-tools", SITE_TOOLS)).clone()
    }

    /// A folder with Playwright.
    ///
    /// # Errors
    /// pip fails.
    pub(crate) fn page_tools(&self) -> Result<PathBuf, String> {
        self.page_tools.get_or_init(|| self.install("page-tools", PAGE_TOOLS)).clone()
    }

    fn install(&self, name: &str, lists: &[&[&str]]) -> Result<PathBuf, String> {
        let folder = self.root.join(PLACE).join(name);
        let marker = folder.join("installed-by-ci");
        let wanted = format!("{lists:?}\n");
        if fs::read_to_string(&marker).is_ok_and(|there| there == wanted) {
            return Ok(folder);
        }
        let part = folder.with_extension("part");
        fresh(&part)?;
        for packages in lists {
            let mut pip = Command::new("python3");
            pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"]);
            Talk::Live.run(pip.arg(&part).args(*packages).env("PIP_ROOT_USER_ACTION", "ignore"))?;
        }
        remove(&folder)?;
        fs::rename(&part, &folder)
            .and_then(|()| fs::write(&marker, wanted))
            .map_err(|error| format!("failed to write {}: {error}", folder.display()))?;
        Ok(folder)
    }

    /// A folder with a new project of every template, under the template's name.
    ///
    /// # Errors
    /// A template cannot be rendered.
    pub(crate) fn templates(&self) -> Result<PathBuf, String> {
        self.templates.get_or_init(|| self.render()).clone()
    }

    fn render(&self) -> Result<PathBuf, String> {
        let folder = self.root.join(PLACE).join("templates");
        fresh(&folder)?;
        let names = folders::templates(&self.root)?;
        let at_a_time = talk::processors();
        // In step with each other, since all take equally long.
        std::thread::scope(|scope| {
            let render = |first: usize| {
                let own = names.iter().skip(first).step_by(at_a_time);
                own.map(|name| self.render_one(name, name, &[])).collect::<Result<Vec<_>, _>>()
            };
            let workers: Vec<_> = (0..at_a_time).map(|first| scope.spawn(move || render(first))).collect();
            let ended =
                workers.into_iter().map(|worker| worker.join().map_err(|_| "a thread panicked".to_owned()));
            ended.collect::<Result<Vec<_>, _>>()?.into_iter().collect::<Result<Vec<_>, _>>()
        })?;
        Ok(folder)
    }

    /// Renders a template into a folder of its own beside the others.
    ///
    /// # Errors
    /// It cannot be rendered.
    pub(crate) fn render_one(&self, template: &str, name: &str, more: &[&str]) -> Result<PathBuf, String> {
        let folder = self.root.join(PLACE).join("templates").join(name);
        let mut new = self.kernelwright(&["new", &format!("ci/{template}")])?;
        new.arg(&folder).args(["--template", template, "--no-git"]).args(more);
        let mut talk = Talk::Kept(String::new());
        let (text, outcome) = talk.heard(&mut new);
        outcome.map_err(|reason| format!("{text}{reason}"))?;
        Ok(folder)
    }

    /// An empty folder for what a step makes.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn scratch(&self, name: &str) -> Result<PathBuf, String> {
        let folder = self.root.join(PLACE).join(name);
        fresh(&folder)?;
        Ok(folder)
    }

    /// `make` of the example, unless this run has done it.
    ///
    /// # Errors
    /// It fails.
    pub(crate) fn example(&self) -> Result<(), String> {
        self.example.get_or_init(|| Talk::Live.run(&mut self.kernelwright(&["make", EXAMPLE])?)).clone()
    }

    /// A Python with torch and the stock client in the cache, which `make` of the example leaves there.
    ///
    /// # Errors
    /// `make` fails.
    pub(crate) fn client(&self) -> Result<(), String> {
        if sites().iter().any(|site| site.join("torch").is_dir() && site.join("kernels").is_dir()) {
            return Ok(());
        }
        self.example()
    }

    /// torch 2.11 and its compilers, as the linter and the projects use them.
    ///
    /// # Errors
    /// They cannot be fetched.
    pub(crate) fn torch(&self) -> Result<(), String> {
        self.torch.get_or_init(|| self.fetch(&["2.11"])).clone()
    }

    /// Every torch that the projects are loaded with. In a run of all steps, earlier ones have left them in the cache.
    ///
    /// # Errors
    /// One cannot be fetched.
    pub(crate) fn torches(&self) -> Result<(), String> {
        let missing = || -> Vec<&str> {
            let there: Vec<String> = sites().iter().map(|site| site.display().to_string()).collect();
            let lacks = |line: &&&str| !there.iter().any(|site| site.contains(&format!("-torch{line}.")));
            TORCHES.iter().filter(lacks).copied().collect()
        };
        self.torches
            .get_or_init(|| match missing().as_slice() {
                [] => Ok(()),
                lines => self.fetch(lines),
            })
            .clone()
    }

    /// The folder of packages with a torch of this release line, such as 2.11, which `torch` or `torches` fetched.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn site(&self, line: &str) -> Result<PathBuf, String> {
        let is_of_line =
            |site: &PathBuf| site.is_dir() && site.to_string_lossy().contains(&format!("-torch{line}."));
        sites().into_iter().find(is_of_line).ok_or_else(|| format!("the cache has no torch {line}"))
    }

    fn fetch(&self, lines: &[&str]) -> Result<(), String> {
        let mut command = self.kernelwright(&["toolchain", "fetch"])?;
        Talk::Live.run(command.args(lines.iter().flat_map(|line| ["--torch", line])))
    }
}

/// The managed Python packages in the cache that have a torch.
fn sites() -> Vec<PathBuf> {
    let entries = fs::read_dir(repo::cache().join("python")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.to_string_lossy().contains("-torch2.1")).collect()
}

fn remove(folder: &Path) -> Result<(), String> {
    if folder.exists() {
        fs::remove_dir_all(folder)
            .map_err(|error| format!("failed to remove {}: {error}", folder.display()))?;
    }
    Ok(())
}

/// Makes an empty folder in the place of whatever is there.
fn fresh(folder: &Path) -> Result<(), String> {
    remove(folder)?;
    fs::create_dir_all(folder).map_err(|error| format!("failed to make {}: {error}", folder.display()))
}
