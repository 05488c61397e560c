//! The modules of a crate, and which file takes which names from which.
//!
//! Owns: `mod`, `use` and paths: nested, renamed, re-exported, or written out where they are used. Never: judges an arrow.
//! It knows no types, so a method call draws no arrow.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::repository::Repository;
use super::rust_source::{Token, tokens_outside_tests};

/// The names that one file takes from another, for each pair of files.
pub(super) type Arrows = BTreeMap<(PathBuf, PathBuf), BTreeSet<String>>;

/// A crate as its `mod` lines describe it, without what only tests compile.
pub(super) struct Crate<'text> {
    modules: Vec<Module<'text>>,
}

/// One module: a file, or a `mod name { .. }` in one.
struct Module<'text> {
    file: PathBuf,
    parent: Option<usize>,
    children: BTreeMap<&'text str, usize>,
    /// Names of the items that are defined here, outside macros.
    items: BTreeSet<&'text str>,
    uses: Vec<Import<'text>>,
    /// The paths outside `use`; a single name may be a path, too.
    paths: Vec<Vec<&'text str>>,
}

/// One name that a `use` brings in.
#[derive(Debug, PartialEq, Eq)]
struct Import<'text> {
    path: Vec<&'text str>,
    brings: ImportedName<'text>,
    is_public: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ImportedName<'text> {
    Name(&'text str),
    /// `use a::*`.
    All,
    /// `use a as _`.
    Nothing,
}

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Module(usize),
    Item { file: PathBuf, name: String },
}

impl<'text> Crate<'text> {
    /// Reads the crate whose root is `root`, as in `kernel-builder/src/lib.rs`.
    pub(super) fn read(repository: &'text Repository, root: &Path) -> Self {
        let mut it = Self { modules: Vec::new() };
        it.add_file(repository, root, None);
        it
    }

    /// The modules that the root declares, with their files.
    pub(super) fn top_level(&self) -> Vec<(&'text str, BTreeSet<&Path>)> {
        let Some(root) = self.modules.first() else { return Vec::new() };
        root.children.iter().map(|(name, child)| (*name, self.files_below(*child))).collect()
    }

    fn files_below(&self, module: usize) -> BTreeSet<&Path> {
        let below = self.modules[module].children.values().flat_map(|child| self.files_below(*child));
        below.chain([self.modules[module].file.as_path()]).collect()
    }

    /// The arrows between the files of this crate.
    pub(super) fn arrows(&self) -> Arrows {
        let mut arrows = Arrows::new();
        for (at, module) in self.modules.iter().enumerate() {
            let mut tie = |target: Option<Target>| {
                if let Some(Target::Item { file, name }) = target
                    && file != module.file
                {
                    arrows.entry((module.file.clone(), file)).or_default().insert(name);
                }
            };
            for used in &module.uses {
                // A re-export alone needs nothing of the file that it names.
                let is_needed = match used.brings {
                    ImportedName::Name(name) => {
                        !used.is_public || module.paths.iter().any(|path| path.first() == Some(&name))
                    }
                    ImportedName::All => false,
                    ImportedName::Nothing => true,
                };
                if is_needed {
                    tie(self.resolve(at, &used.path, &mut Vec::new()));
                }
            }
            for path in &module.paths {
                tie(self.resolve(at, path, &mut Vec::new()));
            }
        }
        arrows
    }

    fn add_file(&mut self, repository: &'text Repository, file: &Path, parent: Option<usize>) -> usize {
        let tokens = repository.text(&file.to_string_lossy()).map(tokens_outside_tests).unwrap_or_default();
        let module = self.add_module(file, parent);
        let mut reader = Reader { tokens: &tokens, at: 0, open: vec![(module, 0)], depth: 0 };
        let declared = reader.read(self);
        for Declared { module, name, path } in declared {
            let folder = self.folder_of_children(module, file);
            let written = path.map(|path| file.parent().unwrap_or(Path::new("")).join(path));
            let candidates = [folder.join(format!("{name}.rs")), folder.join(name).join("mod.rs")];
            let found = written
                .into_iter()
                .chain(candidates)
                .find(|candidate| repository.text(&candidate.to_string_lossy()).is_some());
            if let Some(found) = found {
                let child = self.add_file(repository, &found, Some(module));
                self.modules[module].children.insert(name, child);
            }
        }
        module
    }

    fn add_module(&mut self, file: &Path, parent: Option<usize>) -> usize {
        self.modules.push(Module {
            file: file.to_owned(),
            parent,
            children: BTreeMap::new(),
            items: BTreeSet::new(),
            uses: Vec::new(),
            paths: Vec::new(),
        });
        self.modules.len() - 1
    }

    /// The folder of the files that `mod name;` in a module leads to.
    fn folder_of_children(&self, module: usize, file: &Path) -> PathBuf {
        let parent = file.parent().unwrap_or(Path::new(""));
        let owns_its_folder = ["lib.rs", "main.rs", "mod.rs"].iter().any(|name| file.ends_with(name));
        let folder = if owns_its_folder { parent.to_owned() } else { file.with_extension("") };
        self.inline_names(module).into_iter().rev().fold(folder, |folder, name| folder.join(name))
    }

    /// The names of the inline modules around a module, innermost first, its own included.
    fn inline_names(&self, module: usize) -> Vec<&'text str> {
        let mut names = Vec::new();
        let mut at = module;
        while let Some(parent) = self.modules[at].parent
            && self.modules[parent].file == self.modules[at].file
        {
            let name = self.modules[parent].children.iter().find(|(_, child)| **child == at);
            names.extend(name.map(|(name, _)| *name));
            at = parent;
        }
        names
    }

    /// What `path` leads to, seen from a module; nothing if it leads out of the crate. `pending` are the names that
    /// are being looked up, so that a `use` that leads to itself ends.
    fn resolve(
        &self,
        module: usize,
        path: &[&'text str],
        pending: &mut Vec<(usize, &'text str)>,
    ) -> Option<Target> {
        let mut at = module;
        let mut rest = path;
        match rest.first()? {
            &"crate" => at = 0,
            &"super" => at = self.modules[at].parent?,
            &"self" => {}
            name => {
                let found = self.look_up(module, name, path.len() == 1, pending)?;
                let Target::Module(found) = found else { return Some(found) };
                at = found;
            }
        }
        rest = &rest[1..];
        while let Some((name, after)) = rest.split_first() {
            rest = after;
            match *name {
                "super" => {
                    at = self.modules[at].parent?;
                    continue;
                }
                // `a::{self}` is the module `a`, and no item of its name.
                "self" => continue,
                _ => {}
            }
            match self.look_up(at, name, rest.is_empty(), pending) {
                Some(Target::Module(found)) => at = found,
                Some(item) => return Some(item),
                None if self.leads_out(at, name) => return None,
                // A macro defines it.
                None => {
                    return Some(Target::Item {
                        file: self.modules[at].file.clone(),
                        name: (*name).to_owned(),
                    });
                }
            }
        }
        Some(Target::Module(at))
    }

    /// What a name of a module is. A module and a function may share a name; a path goes on through the module.
    fn look_up(
        &self,
        module: usize,
        name: &'text str,
        is_last: bool,
        pending: &mut Vec<(usize, &'text str)>,
    ) -> Option<Target> {
        let here = &self.modules[module];
        let child = here.children.get(name).map(|child| Target::Module(*child));
        let item = here
            .items
            .contains(name)
            .then(|| Target::Item { file: here.file.clone(), name: name.to_owned() });
        let own =
            if is_last { item.clone().or_else(|| child.clone()) } else { child.or_else(|| item.clone()) };
        let wants = |target: &Target| matches!(target, Target::Module(_)) != is_last;
        if own.as_ref().is_some_and(wants) || pending.contains(&(module, name)) {
            return own;
        }
        pending.push((module, name));
        let named = here.uses.iter().filter(|used| used.brings == ImportedName::Name(name));
        let mut found: Vec<Target> =
            named.filter_map(|used| self.resolve(module, &used.path, pending)).chain(own).collect();
        found.sort_by_key(|target| !wants(target));
        let found = found.into_iter().next().or_else(|| {
            let all = here.uses.iter().filter(|used| used.brings == ImportedName::All);
            all.filter_map(|used| match self.resolve(module, &used.path, pending) {
                Some(Target::Module(from)) => self.look_up(from, name, is_last, pending),
                _ => None,
            })
            .next()
        });
        pending.pop();
        found
    }

    /// Whether a module has the name from another crate.
    fn leads_out(&self, module: usize, name: &str) -> bool {
        self.modules[module].uses.iter().any(|used| used.brings == ImportedName::Name(name))
    }
}

/// A `mod name;`, with its `#[path = ".."]`.
struct Declared<'text> {
    module: usize,
    name: &'text str,
    path: Option<&'text str>,
}

/// Reads the tokens of one file into its modules.
struct Reader<'tokens, 'text> {
    tokens: &'tokens [Token<'text>],
    at: usize,
    /// The modules around `at`, outermost first, each with the depth of brackets of its items.
    open: Vec<(usize, usize)>,
    depth: usize,
}

impl<'text> Reader<'_, 'text> {
    fn read(&mut self, it: &mut Crate<'text>) -> Vec<Declared<'text>> {
        let mut declared = Vec::new();
        while let Some(token) = self.peek(0) {
            let (module, depth) = self.open.last().copied().unwrap_or_default();
            let is_outermost = self.depth == depth;
            match (token, self.peek(1), self.peek(2)) {
                (Token::Word("mod"), Some(Token::Word(name)), Some(Token::Mark('{'))) if is_outermost => {
                    let file = it.modules[module].file.clone();
                    let child = it.add_module(&file, Some(module));
                    it.modules[module].children.insert(name, child);
                    self.depth += 1;
                    self.open.push((child, self.depth));
                    self.at += 3;
                }
                (Token::Word("mod"), Some(Token::Word(name)), Some(Token::Mark(';'))) if is_outermost => {
                    declared.push(Declared { module, name, path: self.written_path() });
                    self.at += 3;
                }
                (Token::Word("use"), Some(Token::Word(_) | Token::Path | Token::Mark('{')), _) => {
                    let is_public = self.at.checked_sub(1).is_some_and(|before| {
                        matches!(self.tokens[before], Token::Word("pub") | Token::Mark(')'))
                    });
                    self.at += 1;
                    let mut uses = Vec::new();
                    self.tree(&[], is_public, &mut uses);
                    it.modules[module].uses.append(&mut uses);
                }
                (Token::Word("macro_rules"), Some(Token::Mark('!')), Some(Token::Word(name))) => {
                    it.modules[module].items.insert(name);
                    self.at += 3;
                }
                (Token::Word(keyword), Some(Token::Word(name)), _)
                    if is_outermost && defines(keyword, name) =>
                {
                    it.modules[module].items.insert(name);
                    self.at += 2;
                }
                (Token::Word("static"), Some(Token::Word("mut")), Some(Token::Word(name)))
                    if is_outermost =>
                {
                    it.modules[module].items.insert(name);
                    self.at += 3;
                }
                (Token::Word(_), _, _) => {
                    let path = self.path();
                    it.modules[module].paths.extend(path);
                }
                (Token::Mark('(' | '[' | '{'), _, _) => {
                    self.depth += 1;
                    self.at += 1;
                }
                (Token::Mark(')' | ']' | '}'), _, _) => {
                    if is_outermost && self.open.len() > 1 {
                        self.open.pop();
                    }
                    self.depth = self.depth.saturating_sub(1);
                    self.at += 1;
                }
                _ => self.at += 1,
            }
        }
        declared
    }

    fn peek(&self, ahead: usize) -> Option<Token<'text>> {
        self.tokens.get(self.at + ahead).copied()
    }

    /// The file that `#[path = ".."]` names for the `mod` that comes now.
    fn written_path(&self) -> Option<&'text str> {
        let visibility = self.tokens[..self.at].iter().rev();
        let mut before = visibility.skip_while(|token| !matches!(token, Token::Mark(']' | ';' | '{' | '}')));
        match (before.next(), before.next(), before.next(), before.next()) {
            (
                Some(Token::Mark(']')),
                Some(Token::Text(path)),
                Some(Token::Mark('=')),
                Some(Token::Word("path")),
            ) => Some(path),
            _ => None,
        }
    }

    /// The path that begins here, unless it is a field, a method, or a part of a longer path.
    fn path(&mut self) -> Option<Vec<&'text str>> {
        let before = self.at.checked_sub(1).map(|before| self.tokens[before]);
        let mut path = Vec::new();
        while let Some(Token::Word(word)) = self.peek(0) {
            path.push(word);
            self.at += 1;
            if !matches!((self.peek(0), self.peek(1)), (Some(Token::Path), Some(Token::Word(_)))) {
                break;
            }
            self.at += 1;
        }
        let begins = !matches!(before, Some(Token::Mark('.') | Token::Path | Token::Word("fn")));
        (begins && is_use_of_an_item(&path, self.peek(0))).then_some(path)
    }

    /// One tree of a `use`, up to the `;`, `,` or `}` after it.
    fn tree(&mut self, prefix: &[&'text str], is_public: bool, uses: &mut Vec<Import<'text>>) {
        let mut path = prefix.to_vec();
        loop {
            match self.peek(0) {
                Some(Token::Word("as")) => {
                    let name = self.peek(1);
                    self.at += 2;
                    let brings = match name {
                        Some(Token::Word("_")) | None => ImportedName::Nothing,
                        Some(Token::Word(name)) => ImportedName::Name(name),
                        Some(_) => return,
                    };
                    uses.push(Import { path, brings, is_public });
                    return;
                }
                Some(Token::Word(word)) => {
                    path.push(word);
                    self.at += 1;
                }
                Some(Token::Path) => self.at += 1,
                Some(Token::Mark('*')) => {
                    self.at += 1;
                    uses.push(Import { path, brings: ImportedName::All, is_public });
                    return;
                }
                Some(Token::Mark('{')) => {
                    self.at += 1;
                    while !matches!(self.peek(0), Some(Token::Mark('}')) | None) {
                        self.tree(&path, is_public, uses);
                        if self.peek(0) == Some(Token::Mark(',')) {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    return;
                }
                _ => {
                    let name = path.iter().rev().find(|name| **name != "self").copied();
                    if let Some(name) = name {
                        uses.push(Import { path, brings: ImportedName::Name(name), is_public });
                    }
                    return;
                }
            }
        }
    }
}

/// Whether a path can be the use of an item: a single lower-case word is a variable, unless it is called.
fn is_use_of_an_item(path: &[&str], after: Option<Token<'_>>) -> bool {
    path.len() > 1
        || path[0].starts_with(|letter: char| letter.is_ascii_uppercase())
        || matches!(after, Some(Token::Mark('(' | '!') | Token::Path))
}

/// Whether `keyword name` begins a definition of `name`.
fn defines(keyword: &str, name: &str) -> bool {
    const KEYWORDS: &[&str] = &["fn", "struct", "enum", "union", "trait", "type", "const", "static"];
    KEYWORDS.contains(&keyword) && !matches!(name, "fn" | "mut" | "unsafe" | "extern" | "async")
}
