//! Command lines as a shell takes them, for logs and messages.
//!
//! Owns: quoting. Never: starts a process.

use kernel_plan::plan::CommandLine;

/// A command as a shell takes it. Of an argument with several lines, such as a script, the first line and its size are shown.
pub(super) fn shown(line: &CommandLine) -> String {
    let program = line.program.display().to_string();
    let words = std::iter::once(program.as_str()).chain(line.args.iter().map(String::as_str));
    words.map(word).collect::<Vec<_>>().join(" ")
}

/// One word, in quotes if it needs them.
pub(super) fn word(text: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_=+./:,@%^~".contains(letter);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    match text.trim_start().split_once('\n') {
        Some((first, _)) => format!("'{first} ... ({} bytes)'", text.len()),
        None => format!("'{}'", in_single_quotes(text)),
    }
}

/// A text as it stands between single quotes of a shell.
pub(super) fn in_single_quotes(text: &str) -> String {
    text.replace('\'', r"'\''")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_pasted() {
        let line = CommandLine::new("/usr/bin/g++").args(["-DNAME=\"x\"", "-O2", "a b.cpp", "it's", ""]);
        assert_eq!(shown(&line), r#"/usr/bin/g++ '-DNAME="x"' -O2 'a b.cpp' 'it'\''s' ''"#);
        let script = CommandLine::new("python3").args(["-c", "\nimport json\nprint()\n"]);
        assert_eq!(shown(&script), "python3 -c 'import json ... (21 bytes)'");
    }
}
