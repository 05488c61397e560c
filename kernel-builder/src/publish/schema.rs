//! Schemas of operators, as PyTorch writes them: `norm(Tensor(a!) x, *, float eps=1e-6) -> Tensor`.
//!
//! Owns: reading one, finding those among the constants of a library, and what a change of one breaks.
//! Never: asks PyTorch.

use std::fmt;

/// A schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    /// The operator, with its overload: `norm`, `norm.out`; without a namespace.
    pub name: String,
    arguments: Vec<Argument>,
    returns: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Argument {
    /// As it is written: `Tensor(a!)?`, `int[]`.
    kind: String,
    name: String,
    default: Option<String>,
    by_name: bool,
}

/// What the words of types begin with (torch/csrc/jit/frontend/schema_type_parser.cpp); a class of torch's has dots.
const KINDS: &[&str] = &[
    "Tensor",
    "int",
    "SymInt",
    "float",
    "bool",
    "str",
    "Scalar",
    "ScalarType",
    "Device",
    "Layout",
    "MemoryFormat",
    "Generator",
    "Storage",
    "Dimname",
    "complex",
    "Any",
    "AnyEnumType",
    "Stream",
    "QScheme",
    "Dict",
    "Optional",
    "List",
    "Tuple",
    "Union",
    "Future",
    "RRef",
    "t",
];

/// The longest that is looked at.
const LONGEST: usize = 8192;

/// The schemas among the texts of some constants, which end with a zero.
pub fn all(constants: &[u8]) -> Vec<Schema> {
    let texts = constants.split(|byte| *byte == 0).filter(|text| (8..LONGEST).contains(&text.len()));
    texts.filter_map(|text| Schema::parse(std::str::from_utf8(text).ok()?)).collect()
}

impl Schema {
    /// Reads a schema; `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, rest) = text.split_once('(')?;
        let name = name.rsplit("::").next()?;
        let is_name = |text: &str| {
            let fine = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            !text.is_empty()
                && text.chars().all(fine)
                && !text.starts_with(|first: char| first.is_ascii_digit())
        };
        if !name.split('.').all(is_name) {
            return None;
        }
        let (inside, returns) = closed(rest)?;
        let returns = returns.trim().strip_prefix("->")?.trim();
        let typed = |part: &str| {
            let part = part.trim();
            part.is_empty()
                || KINDS.iter().any(|kind| part.starts_with(kind))
                || part.starts_with("__torch__.")
        };
        let each = returns.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')).unwrap_or(returns);
        if !parts(each).iter().all(|part| typed(part)) {
            return None;
        }
        let (mut arguments, mut by_name) = (Vec::new(), false);
        for part in parts(inside) {
            let part = part.trim();
            if part.is_empty() {
                continue;
            }
            if part == "*" {
                by_name = true;
                continue;
            }
            let (before, default) = match part.split_once('=') {
                Some((before, default)) => (before.trim(), Some(default.trim().to_owned())),
                None => (part, None),
            };
            let (kind, name) = before.rsplit_once(char::is_whitespace)?;
            if !is_name(name) || !typed(kind) {
                return None;
            }
            arguments.push(Argument {
                kind: kind.trim().to_owned(),
                name: name.to_owned(),
                default,
                by_name,
            });
        }
        Some(Self { name: name.to_owned(), arguments, returns: returns.to_owned() })
    }

    /// Why calls of this one do not work with the other; `None` where they do: it may have more arguments with defaults,
    /// behind the others or by name.
    pub fn lost_in(&self, new: &Self) -> Option<&'static str> {
        if self.returns != new.returns {
            return Some("returns something else");
        }
        let places = |of: &Self| of.arguments.iter().filter(|it| !it.by_name).cloned().collect::<Vec<_>>();
        let (before, after) = (places(self), places(new));
        for (place, was) in before.iter().enumerate() {
            match after.get(place) {
                Some(is) if is.fits(was) => {}
                _ => return Some("takes other arguments"),
            }
        }
        let by_name = self.arguments.iter().filter(|it| it.by_name);
        for was in by_name {
            if !new.arguments.iter().any(|is| is.name == was.name && is.fits(was)) {
                return Some("takes other arguments");
            }
        }
        let known = |is: &&Argument| self.arguments.iter().any(|was| was.name == is.name);
        let asks = new.arguments.iter().filter(|is| !known(is)).any(|is| is.default.is_none());
        asks.then_some("requires more arguments")
    }

    /// Whether the text of this one ends with the whole text of another.
    pub fn ends_with(&self, other: &Self) -> bool {
        self.to_string().ends_with(&other.to_string())
    }
}

impl Argument {
    /// Whether what was given for another one can be given for this one.
    fn fits(&self, was: &Self) -> bool {
        self.name == was.name && self.kind == was.kind && (self.default.is_some() || was.default.is_none())
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut texts, mut by_name) = (Vec::new(), false);
        for Argument { kind, name, default, by_name: alone } in &self.arguments {
            if *alone && !by_name {
                texts.push("*".to_owned());
                by_name = true;
            }
            let default = default.as_ref().map(|default| format!("={default}")).unwrap_or_default();
            texts.push(format!("{kind} {name}{default}"));
        }
        write!(f, "{}({}) -> {}", self.name, texts.join(", "), self.returns)
    }
}

/// The text up to the parenthesis that closes, and what is behind it.
fn closed(text: &str) -> Option<(&str, &str)> {
    let (mut depth, mut quoted) = (1_usize, false);
    for (place, letter) in text.char_indices() {
        match letter {
            '"' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((&text[..place], &text[place + 1..]));
        }
    }
    None
}

/// The parts between commas that no bracket and no quote holds.
fn parts(text: &str) -> Vec<&str> {
    let (mut found, mut start, mut depth, mut quoted) = (Vec::new(), 0, 0_i32, false);
    for (place, letter) in text.char_indices() {
        match letter {
            '"' => quoted = !quoted,
            '(' | '[' if !quoted => depth += 1,
            ')' | ']' if !quoted => depth -= 1,
            ',' if depth == 0 && !quoted => {
                found.push(&text[start..place]);
                start = place + 1;
            }
            _ => {}
        }
    }
    found.push(&text[start..]);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_read_and_written() {
        for text in [
            "norm(Tensor x, float eps) -> Tensor",
            "norm.out(Tensor x, *, float eps=1e-6, Tensor(a!) out) -> Tensor(a!)",
            "many(Tensor[] xs, int[2] sizes=[1, 2], str? mode=None, SymInt n=0) -> (Tensor, Tensor)",
            "nothing() -> ()",
            "quoted(str a=\"x, y\") -> bool",
            "bracket(str a=\"(\", int b=1) -> bool",
        ] {
            assert_eq!(Schema::parse(text).map(|schema| schema.to_string()).as_deref(), Some(text));
        }
        assert_eq!(Schema::parse("ns::norm(Tensor x) -> Tensor").unwrap().name, "norm");
    }

    #[test]
    fn other_texts_are_none() {
        for text in [
            "expected f(x) -> y",
            "call(this) -> that",
            "norm(Tensor x)",
            "norm(Tensor x -> Tensor",
            "std::function<void(int)>",
            "1norm(Tensor x) -> Tensor",
            "norm(Tensor) -> Tensor",
            "",
        ] {
            assert_eq!(Schema::parse(text), None, "{text}");
        }
        let constants = b"\0usage: f(x)\0norm(Tensor x) -> Tensor\0\xff\xfe(a) -> b\0";
        let found: Vec<_> = all(constants).into_iter().map(|schema| schema.name).collect();
        assert_eq!(found, ["norm"]);
    }

    #[track_caller]
    fn check(old: &str, new: &str, want: Option<&str>) {
        let [old, new] = [old, new].map(|text| Schema::parse(text).unwrap());
        assert_eq!(old.lost_in(&new), want, "{old} and {new}");
    }

    #[test]
    fn what_a_change_breaks() {
        let old = "f(Tensor x, float eps) -> Tensor";
        check(old, old, None);
        check(old, "f(Tensor x, float eps, int k=1) -> Tensor", None);
        check(old, "f(Tensor x, float eps=1e-6, *, int k=1) -> Tensor", None);
        check(old, "f(Tensor x, float eps, int k) -> Tensor", Some("requires more arguments"));
        check(old, "f(float eps, Tensor x) -> Tensor", Some("takes other arguments"));
        check(old, "f(Tensor x, float epsilon) -> Tensor", Some("takes other arguments"));
        check(old, "f(Tensor(a!) x, float eps) -> Tensor", Some("takes other arguments"));
        check(old, "f(Tensor x) -> Tensor", Some("takes other arguments"));
        check(old, "f(Tensor x, float eps) -> ()", Some("returns something else"));
        check("f(Tensor x, *, int k=1) -> ()", "f(Tensor x) -> ()", Some("takes other arguments"));
        check("f(Tensor x, *, int k=1) -> ()", "f(Tensor x, *, int k) -> ()", Some("takes other arguments"));
    }
}
