//! A command as a person can paste it into a shell.
//!
//! Owns: quoting. Never: runs it.

use kernel_plan::plan::CommandLine;

/// The command as one line that a person can paste into a shell.
pub fn shell_line(command: &CommandLine) -> String {
    let mut words: Vec<String> =
        command.env.iter().map(|(name, value)| format!("{name}={}", quote(value))).collect();
    words.push(quote(&command.program.display().to_string()));
    words.extend(command.args.iter().map(|arg| quote(arg)));
    words.join(" ")
}

fn quote(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_=+,./:@%".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
