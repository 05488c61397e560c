//! When two preprocessed texts are the same program, although they differ.
//!
//! Headers choose by architecture: a constant that nobody uses, the body of a function that nobody calls, a function that
//! only one of them has. Such texts make the same code, and the front end, which is most of the work, needs to read only
//! one of them.
//!
//! Owns: a strict comparison, declaration by declaration. Let through are: the number in the definition of a constant,
//! and the inside of a template of a class, whose names stand nowhere else; numbers that a plain function of the host
//! assigns; the inside of the body of a plain function of the device, of which the caller then looks whether it was
//! generated; and a plain function of the device that one text lacks, and whose name stands nowhere in that text. What
//! the shared declarations mean is then the same in both, since they cannot name what differs. Never: lets a difference
//! through in a template or a class that is named, or in anything that is evaluated while compiling.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::tokens::{Tokens, is_word};
use heads::{behind_attributes, behind_parameters, constant, name_of, opens_namespace, type_of};

/// A preprocessed text, read once to be compared with several.
pub struct Program {
    text: Vec<u8>,
    items: Vec<Item>,
}

impl Program {
    /// Nothing when braces or parentheses are not in pairs.
    pub fn read(text: Vec<u8>) -> Option<Self> {
        let items = Text::read(&text, None)?.items.into_owned();
        Some(Self { text, items })
    }

    /// What the names of the functions contain that must not be generated for the texts to be alike. Nothing when they
    /// are different programs.
    pub fn alike(&self, other: &Self) -> Option<BTreeSet<String>> {
        let [left, right] = [self, other].map(|program| Text {
            text: &program.text,
            class: None,
            items: Cow::Borrowed(&program.items),
        });
        let mut found = Differences::default();
        for op in capture_diff_slices(Algorithm::Myers, &left.hashes(), &right.hashes()) {
            if let DiffOp::Equal { old_index, new_index, len } = op {
                let pairs = left.items[old_index..][..len].iter().zip(&right.items[new_index..][..len]);
                if !pairs.into_iter().all(|(a, b)| same_tokens(left.slice(a), right.slice(b))) {
                    return None;
                }
            } else {
                let (_, old, new) = op.as_tag_tuple();
                found.add(&left.pieces(old)?, &right.pieces(new)?)?;
            }
        }
        let Differences { mut bodies, unnamed, only_left, only_right } = found;
        let nowhere_else = |text, side: usize| {
            let mut own: HashMap<&[u8], usize> =
                unnamed.iter().map(|(name, own)| (*name, own[side])).collect();
            words(text).all(|word| own.get_mut(word).is_none_or(take_one))
        };
        let alone = unnamed.is_empty() || nowhere_else(left.text, 0) && nowhere_else(right.text, 1);
        if !alone {
            return None;
        }
        bodies.extend(left.users(&only_right)?);
        bodies.extend(right.users(&only_left)?);
        Some(bodies)
    }
}

/// What differs, and is let through on a condition.
#[derive(Default)]
struct Differences<'t> {
    /// Parts of names of functions that must not be generated.
    bodies: BTreeSet<String>,
    /// Names that nothing but what they are the names of may mention, and how often that does in each text.
    unnamed: BTreeMap<&'t [u8], [usize; 2]>,
    only_left: Extra<'t>,
    only_right: Extra<'t>,
}

/// What one text has and the other lacks.
#[derive(Default)]
struct Extra<'t> {
    /// Names of functions, of which the other text may have overloads.
    functions: BTreeSet<&'t [u8]>,
    types: BTreeSet<&'t [u8]>,
}

impl<'t> Extra<'t> {
    fn add(&mut self, kind: &Kind<'t>) -> Option<()> {
        match kind {
            Kind::Function(function) => self.functions.insert(function.name_where_extra()?),
            Kind::Type(class) => self.types.insert(class.name),
            Kind::Semicolon => true,
            Kind::Constant(_) => return None,
        };
        Some(())
    }

    fn has(&self, name: &[u8]) -> bool {
        self.functions.contains(name) || self.types.contains(name)
    }
}

impl<'t> Differences<'t> {
    /// Takes up declarations that stand in one place of both texts; nothing when one of them is not let through.
    fn add(&mut self, left: &[Piece<'t>], right: &[Piece<'t>]) -> Option<()> {
        let heads = |pieces: &[Piece<'_>]| pieces.iter().map(|piece| piece.head).collect::<Vec<_>>();
        for op in capture_diff_slices(Algorithm::Myers, &heads(left), &heads(right)) {
            let (_, old, new) = op.as_tag_tuple();
            if let DiffOp::Equal { .. } = op {
                for (left, right) in left[old].iter().zip(&right[new]) {
                    self.add_pair(left, right)?;
                }
                continue;
            }
            for (pieces, names) in [(&left[old], &mut self.only_left), (&right[new], &mut self.only_right)] {
                for piece in pieces {
                    names.add(&piece.kind)?;
                }
            }
        }
        Some(())
    }

    /// Takes up a declaration that both texts have, each in its own way.
    fn add_pair(&mut self, left: &Piece<'t>, right: &Piece<'t>) -> Option<()> {
        match (&left.kind, &right.kind) {
            (Kind::Constant(name), Kind::Constant(_)) => {
                self.add_unnamed(name, [1, 1]);
            }
            (Kind::Function(function), Kind::Function(other)) => {
                let bodies = [function.body?, other.body?];
                if !(function.host() && assign_numbers(bodies)) {
                    self.bodies.insert(function.name_in_code()?);
                }
            }
            (Kind::Type(class), Kind::Type(other)) if class.template && other.template => {
                let mentions =
                    |class: &Type<'_>| words(class.whole).filter(|word| *word == class.name).count();
                self.add_unnamed(class.name, [class, other].map(mentions));
            }
            (Kind::Type(class), Kind::Type(other)) => {
                let [left, right] =
                    [class.members?, other.members?].map(|text| Text::read(text, Some(class.name)));
                self.add_members(&left?, &right?)?;
            }
            _ => return None,
        }
        Some(())
    }

    /// Takes up a name that may be mentioned this often in either text.
    fn add_unnamed(&mut self, name: &'t [u8], mentions: [usize; 2]) {
        let own = self.unnamed.entry(name).or_default();
        *own = [own[0] + mentions[0], own[1] + mentions[1]];
    }

    /// Takes up a class of which nothing but the insides of functions differs.
    fn add_members(&mut self, left: &Text<'t>, right: &Text<'t>) -> Option<()> {
        for op in capture_diff_slices(Algorithm::Myers, &left.hashes(), &right.hashes()) {
            match op {
                DiffOp::Equal { .. } => {}
                DiffOp::Replace { old_index, old_len, new_index, new_len } if old_len == new_len => {
                    let left = left.pieces(old_index..old_index + old_len)?;
                    let right = right.pieces(new_index..new_index + new_len)?;
                    for (left, right) in left.iter().zip(&right) {
                        let functions = matches!(left.kind, Kind::Function(_)) && left.head == right.head;
                        functions.then(|| self.add_pair(left, right))??;
                    }
                }
                _ => return None,
            }
        }
        Some(())
    }
}

/// A text as declarations. Namespaces and `extern "C"` are no declarations of their own; each has the path of them.
struct Text<'t> {
    text: &'t [u8],
    /// The class whose members these are.
    class: Option<&'t [u8]>,
    items: Cow<'t, [Item]>,
}

/// One declaration.
#[derive(Clone)]
struct Item {
    place: Range<usize>,
    /// Where its body begins, behind the brace.
    body: Option<usize>,
    /// Of its path.
    scope: u64,
    /// Of its path and its tokens.
    hash: u64,
}

impl<'t> Text<'t> {
    fn read(text: &'t [u8], class: Option<&'t [u8]>) -> Option<Self> {
        let mut tokens = Tokens::new(text);
        let mut items = Vec::new();
        let mut scopes: Vec<u64> = vec![0];
        let mut nested = 0_usize;
        let mut declaration: Vec<&[u8]> = Vec::new();
        let mut start = 0;
        let (mut body, mut hasher) = (None, DefaultHasher::new());
        while let Some(token) = tokens.next() {
            if declaration.is_empty() {
                start = tokens.at - token.len();
            }
            // A pragma between declarations is one of its own.
            let mut ended = declaration.is_empty() && token.starts_with(b"#");
            match token {
                b"{" if nested == 0 && opens_namespace(&declaration) => {
                    scopes.push(hash_of(&(scopes.last(), &declaration)));
                    declaration.clear();
                    continue;
                }
                b"}" if declaration.is_empty() => {
                    scopes.pop();
                    if scopes.is_empty() {
                        return None;
                    }
                    continue;
                }
                b"{" => {
                    let inside = tokens.at;
                    tokens.skip_body()?;
                    if nested == 0 {
                        body = Some(inside);
                        ended = true;
                    }
                    declaration.push(token);
                    Tokens::new(&text[inside..tokens.at]).for_each(|token| token.hash(&mut hasher));
                }
                b"}" => return None,
                _ => {
                    match token {
                        b"(" => nested += 1,
                        b")" => nested = nested.checked_sub(1)?,
                        b";" if nested == 0 => ended = true,
                        b":" => ended = matches!(declaration[..], [b"public" | b"protected" | b"private"]),
                        _ => {}
                    }
                    declaration.push(token);
                }
            }
            // What stands behind a body belongs to it or begins something new; nothing is decided by it.
            if ended {
                let scope = scopes.last().copied().unwrap_or_default();
                (scope, &declaration).hash(&mut hasher);
                let hash = std::mem::take(&mut hasher).finish();
                items.push(Item { place: start..tokens.at, body: body.take(), scope, hash });
                declaration.clear();
            }
        }
        (declaration.is_empty() && scopes.len() == 1).then_some(Self {
            text,
            class,
            items: Cow::Owned(items),
        })
    }

    fn hashes(&self) -> Vec<u64> {
        self.items.iter().map(|item| item.hash).collect()
    }

    fn slice(&self, item: &Item) -> &'t [u8] {
        &self.text[item.place.clone()]
    }

    /// What the names of the functions contain that are overloads of what this text lacks, or mention it in their
    /// bodies. Nothing where it stands in anything else: what a type or a signature means may then depend on it.
    fn users(&self, lacks: &Extra<'_>) -> Option<BTreeSet<String>> {
        if lacks.functions.is_empty() && lacks.types.is_empty() {
            return Some(BTreeSet::new());
        }
        let users = self.items.iter().filter(|item| words(self.slice(item)).any(|word| lacks.has(word)));
        let name = |item: &Item| {
            let Kind::Function(function) = self.piece(item)?.kind else { return None };
            let typed = words(self.slice(item)).any(|word| lacks.types.contains(word));
            let in_head = function.head.iter().filter(|token| lacks.has(token)).count();
            let overload = lacks.has(function.name);
            (!typed && in_head == usize::from(overload)).then(|| function.name_in_code())?
        };
        users.map(name).collect()
    }

    fn pieces(&self, items: Range<usize>) -> Option<Vec<Piece<'t>>> {
        self.items[items].iter().map(|item| self.piece(item)).collect()
    }

    /// Nothing for what must not differ.
    fn piece(&self, item: &Item) -> Option<Piece<'t>> {
        let end = item.body.map_or(item.place.end, |body| body - 1);
        let mut tokens: Vec<&[u8]> = Tokens::new(&self.text[item.place.start..end]).collect();
        if let Some((name, head)) = constant(&tokens).filter(|_| item.body.is_none()) {
            return Some(Piece { head: hash_of(&(item.scope, head)), kind: Kind::Constant(name) });
        }
        if item.body.is_none() && tokens.pop() != Some(b";") {
            return None;
        }
        let body = item.body.map(|body| &self.text[body..item.place.end - 1]);
        let head = |tokens: &[&[u8]]| hash_of(&(item.scope, item.body.is_some(), tokens));
        if tokens.is_empty() && item.body.is_none() {
            return Some(Piece { head: head(&tokens), kind: Kind::Semicolon });
        }
        if let Some(name) = type_of(&tokens, item.body.is_some()) {
            let class =
                Type { name, template: tokens[0] == b"template", members: body, whole: self.slice(item) };
            return Some(Piece { head: head(&tokens), kind: Kind::Type(class) });
        }
        let function = Function::read(tokens, body, self.class)?;
        Some(Piece { head: head(&function.head), kind: Kind::Function(function) })
    }
}

/// A declaration that differs.
struct Piece<'t> {
    /// Of all of it that must be equal where both texts have it.
    head: u64,
    kind: Kind<'t>,
}

enum Kind<'t> {
    Constant(&'t [u8]),
    Function(Function<'t>),
    /// A class or a template of one.
    Type(Type<'t>),
    /// What stands behind the body of a class.
    Semicolon,
}

struct Type<'t> {
    name: &'t [u8],
    template: bool,
    /// What stands between its braces.
    members: Option<&'t [u8]>,
    whole: &'t [u8],
}

/// A function or a template of one, which is not evaluated while compiling.
struct Function<'t> {
    head: Vec<&'t [u8]>,
    name: &'t [u8],
    constructor: bool,
    /// What stands between its braces.
    body: Option<&'t [u8]>,
}

impl<'t> Function<'t> {
    fn read(mut head: Vec<&'t [u8]>, body: Option<&'t [u8]>, class: Option<&[u8]>) -> Option<Self> {
        // What initialises members stands behind the head of a constructor.
        let members = head.iter().position(|token| *token == b":");
        head.truncate(members.unwrap_or(head.len()));
        let parameters = behind_parameters(&head)?;
        let start = parameters + behind_attributes(&head[parameters..])?;
        let at = start + name_of(&head[start..])?;
        let name = head[at];
        let qualified = at >= 2 && head[at - 1] == b"::" && head[at - 2] == name;
        let constructor = qualified || class == Some(name);
        (constructor || members.is_none()).then_some(Self { head, name, constructor, body })
    }

    fn marked(&self, side: &[u8]) -> bool {
        self.head.windows(2).any(|pair| pair[0] == b"(" && pair[1] == side)
    }

    /// Whether it is the device's: the host's functions decide which kernels are there, and must not differ.
    fn device(&self) -> bool {
        self.marked(b"device") && !self.marked(b"global")
    }

    /// Whether it is the host's alone and no template.
    fn host(&self) -> bool {
        !self.marked(b"device") && !self.marked(b"global") && self.head[0] != b"template" && !self.constructor
    }

    /// Its name, where it may be missing in the other text.
    fn name_where_extra(&self) -> Option<&'t [u8]> {
        const OWN: &[&[u8]] = &[b"static", b"inline", b"__inline__", b"__inline"];
        // One that is neither static nor inline is generated although nobody calls it; a template is not.
        let own = |token: &&[u8]| OWN.contains(token);
        let fits = self.body.is_none() || self.head[0] == b"template" || self.head.iter().any(own);
        (fits && self.device() && !self.constructor).then_some(self.name)
    }

    /// What its name in the code contains, where its body may differ.
    fn name_in_code(&self) -> Option<String> {
        let name = String::from_utf8(self.name.to_vec()).ok().filter(|_| self.device())?;
        Some(if self.constructor { format!("{}{name}C", name.len()) } else { name })
    }
}

/// Whether these bodies differ in nothing but numbers that a statement assigns: `name = 750;`. Their type is the same and
/// none is zero, a pointer's value, so that both do the same while compiling. Not beside a function within the body, which
/// may be evaluated then.
fn assign_numbers(bodies: [&[u8]; 2]) -> bool {
    let [left, right] = bodies.map(|body| Tokens::new(body).collect::<Vec<_>>());
    let number = |token: &[u8]| {
        (1..10).contains(&token.len()) && token[0] != b'0' && token.iter().all(u8::is_ascii_digit)
    };
    let assigned = |at: usize| {
        let [b";" | b"{" | b"}", name, b"=", _, b";"] =
            left[at.saturating_sub(3)..].get(..5).unwrap_or_default()
        else {
            return false;
        };
        is_word(name) && number(left[at]) && number(right[at])
    };
    let function = |at: usize| match left[at] {
        b"constexpr" | b"consteval" | b"struct" | b"class" | b"union" => true,
        // A lambda, or a subscript; not an attribute.
        b"[" => left.get(at + 1) != Some(&b"[".as_slice()) && (at == 0 || left[at - 1] != b"["),
        _ => false,
    };
    left.len() == right.len()
        && (0..left.len()).all(|at| !function(at) && (left[at] == right[at] || assigned(at)))
}

/// Takes one away; whether there was one.
fn take_one(left: &mut usize) -> bool {
    let rest = left.checked_sub(1);
    *left = rest.unwrap_or_default();
    rest.is_some()
}

/// The words of a text, also those within literals: inline assembly may name a function.
fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || *byte >= 0x80;
    text.split(move |byte| !word(byte)).filter(|word| !word.is_empty())
}

fn hash_of(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

fn same_tokens(one: &[u8], other: &[u8]) -> bool {
    one == other || Tokens::new(one).eq(Tokens::new(other))
}

mod heads;
#[cfg(test)]
mod tests;
