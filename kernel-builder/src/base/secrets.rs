//! Removes secrets from text: tokens, and credentials and queries in URLs.
//!
//! Owns: the secrets that are known in this process, those of the environment, and texts without them. Never: keeps one
//! anywhere else.

use std::sync::{PoisonError, RwLock};

use super::{env, shell};

/// In place of a secret.
const HIDDEN: &str = "***";
/// Shorter words are hidden in addresses alone: as text they would hide half of a log.
const SHORTEST: usize = 4;

static KNOWN: RwLock<Vec<String>> = RwLock::new(Vec::new());

/// Hides this text from now on, wherever it stands: as it is, line by line, and as shells and debug output quote it.
pub(crate) fn hide(secret: &str) {
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    for text in std::iter::once(secret).chain(secret.lines().map(str::trim)) {
        let debug = format!("{text:?}");
        let debug = debug.get(1..debug.len() - 1).unwrap_or_default();
        for form in [text, &shell::in_single_quotes(text), debug] {
            if text.len() >= SHORTEST && !known.iter().any(|other| other == form) {
                known.push(form.to_owned());
            }
        }
    }
    // A secret may be the beginning of another one.
    known.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
}

/// Hides the secrets of the environment from now on.
pub(crate) fn hide_environment() {
    of_environment().iter().for_each(|secret| hide(secret));
}

/// Secrets of fewer bytes could be words of any text.
const TELLING: usize = 12;

/// Whether a known secret stands in a text, one that is too long to be a word.
pub(crate) fn is_in(text: &str) -> bool {
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
    known.iter().any(|secret| secret.len() >= TELLING && text.contains(secret.as_str()))
}

/// A text without known secrets, without the user and password of addresses, and without the values of their queries:
/// a signed address of a storage service has its signature there.
pub(crate) fn without(text: &str) -> String {
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
    let text = known.iter().fold(text.to_owned(), |text, secret| text.replace(secret, HIDDEN));
    let mut parts = text.split("://");
    let mut found = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        found += "://";
        found += &address(part);
    }
    found
}

/// Redacts the text after `://`: a URL up to its end, then other text.
fn address(part: &str) -> String {
    // Characters such as `'` and `(` may stand in a password (RFC 3986, 3.2.1), and end an address elsewhere.
    let of_authority = |letter: char| !letter.is_whitespace() && !"\"`<>/?#".contains(letter);
    let authority = part.find(|letter| !of_authority(letter)).unwrap_or(part.len());
    let (user, part) = match part[..authority].rfind('@') {
        Some(at) => (HIDDEN, &part[at..]),
        None => ("", part),
    };
    let end = |letter: char| letter.is_whitespace() || "\"'`<>(){}\\".contains(letter);
    let (whole, rest) = part.split_at(part.find(end).unwrap_or(part.len()));
    let (place, after) = whole.split_at(whole.find(['?', '#']).unwrap_or(whole.len()));
    let mut found = format!("{user}{place}");
    if let Some(query) = after.strip_prefix('?') {
        let names = query.split('&').map(|pair| match pair.split_once('=') {
            Some((name, _)) => format!("{name}={HIDDEN}"),
            None => HIDDEN.to_owned(),
        });
        found += &format!("?{}", names.collect::<Vec<_>>().join("&"));
    }
    found + rest
}

/// The user and the password of an address, as they stand in it.
pub(super) fn of_address(text: &str) -> Vec<String> {
    let Some((_, rest)) = text.split_once("://") else { return Vec::new() };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let Some((user, _)) = authority.rsplit_once('@') else { return Vec::new() };
    match user.split_once(':') {
        // A user without a password is a token.
        Some((name, "")) => vec![name.to_owned()],
        Some((_, password)) => vec![password.to_owned()],
        None => vec![user.to_owned()],
    }
}

/// How the names of variables end that hold secrets.
const SECRETIVE: &[&str] = &[
    "TOKEN",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "_PASS",
    "_PWD",
    "_PAT",
    "SECRET",
    "API_KEY",
    "APIKEY",
    "ACCESS_KEY",
    "SECRET_KEY",
    "PRIVATE_KEY",
    "SIGNING_KEY",
];

/// Secrets in the environment: variables whose names say so, and passwords in addresses, such as that of a package index.
fn of_environment() -> Vec<String> {
    let mut found = Vec::new();
    for (name, value) in env::variables() {
        found.extend(value.split_whitespace().flat_map(of_address));
        if is_secretive(&name.to_ascii_uppercase()) {
            found.push(value);
        }
    }
    found
}

/// Whether a variable holds a secret, by its name in capitals.
fn is_secretive(name: &str) -> bool {
    SECRETIVE.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use kernel_plan::plan::CommandLine;

    use super::*;

    #[test]
    fn addresses_lose_what_authorises() {
        for (text, expected) in [
            ("GET https://me:pass@host:8800/a/b 200", "GET https://***@host:8800/a/b 200"),
            ("see http://host/a?X-Sig=abc&d=e&f.", "see http://host/a?X-Sig=***&d=***&***"),
            ("'--index-url=https://tok@host/simple' -q", "'--index-url=https://***@host/simple' -q"),
            ("https://user:p@ss@host", "https://***@host"),
            (
                "one http://a@b two https://c:d@e/f?g=h three",
                "one http://***@b two https://***@e/f?g=*** three",
            ),
            ("no address: a://", "no address: a://"),
            ("https://host/@scope/name", "https://host/@scope/name"),
            ("https://me:p(a)s's@host/x", "https://***@host/x"),
            (
                "'--index-url=https://me:it'\\''s{}@host/simple' -q",
                "'--index-url=https://***@host/simple' -q",
            ),
            ("(see https://host/a) or me@host", "(see https://host/a) or me@host"),
            ("[\"https://host\", \"me@host\"]", "[\"https://host\", \"me@host\"]"),
        ] {
            assert_eq!(without(text), expected);
        }
    }

    #[test]
    fn known_secrets_are_hidden_everywhere() {
        hide("hf_secretsecret");
        hide("hf_secretsecretlonger");
        hide("abc");
        assert_eq!(without("token hf_secretsecretlonger, hf_secretsecret, abc"), "token ***, ***, abc");
        hide("it's \\ mine\nfirst line\n");
        let line = CommandLine::new("tool").args(["it's \\ mine", "it's \\ mine\nfirst line\n"]);
        let shown = shell::shown(&line);
        assert!(!without(&shown).contains("mine"), "{shown}");
        assert!(!without(&format!("{:?}", "it's \\ mine")).contains("mine"));
        assert_eq!(without("the first line"), "the ***");
    }

    #[test]
    fn the_secret_of_an_address() {
        assert_eq!(of_address("https://me:pass@host/x"), ["pass"]);
        assert_eq!(of_address("https://token@host"), ["token"]);
        assert_eq!(of_address("https://token:@host"), ["token"]);
        assert_eq!(of_address("https://host/@x"), [""; 0]);
        assert_eq!(of_address("plain"), [""; 0]);
    }

    #[test]
    fn variables_with_secrets_are_known_by_their_names() {
        for name in
            ["HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "DB_PASSWD", "GH_PAT", "KERNEL_SIGNING_KEY", "MYSQL_PWD"]
        {
            assert!(is_secretive(name), "{name}");
        }
        for name in ["PATH", "PWD", "OLDPWD", "SSH_AUTH_SOCK", "AWS_ACCESS_KEY_ID", "COMPASS", "SORT_KEY"] {
            assert!(!is_secretive(name), "{name}");
        }
    }
}
