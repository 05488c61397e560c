//! The few lines of Python between two ways of calling a reference.
//!
//! Owns: `run` of flashinfer-bench (every input by position, new tensors or numbers out) on our reference, and our call
//! (tensors by position, then scalars by keyword) on `run`.
//! Never: understands Python; where a signature is not plain, it says that it does not know.

use crate::units::Dtype;

/// Whether a function `name` begins at the beginning of a line.
pub(super) fn defines(source: &str, name: &str) -> bool {
    after_definition(source, name).is_some()
}

/// What follows `def name(`.
fn after_definition<'s>(source: &'s str, name: &str) -> Option<&'s str> {
    let mut rest = source;
    loop {
        let line = rest.strip_prefix("def ").and_then(|rest| rest.trim_start().strip_prefix(name));
        if let Some(after) = line.and_then(|rest| rest.trim_start().strip_prefix('(')) {
            return Some(after);
        }
        rest = &rest[rest.find('\n')? + 1..];
    }
}

/// The names of the parameters of a function, when all of them may be passed by position and by keyword.
pub(super) fn parameters<'s>(source: &'s str, name: &str) -> Option<Vec<&'s str>> {
    let text = after_definition(source, name)?;
    let mut depth = 0usize;
    let (mut parts, mut start, mut closed) = (Vec::new(), 0, false);
    for (place, letter) in text.char_indices() {
        match letter {
            '(' | '[' | '{' => depth += 1,
            ')' if depth == 0 => {
                parts.push(&text[start..place]);
                closed = true;
                break;
            }
            ')' | ']' | '}' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => {
                parts.push(&text[start..place]);
                start = place + 1;
            }
            // Texts and comments may hold any of the letters above.
            '"' | '\'' | '#' => return None,
            _ => {}
        }
    }
    if !closed {
        return None;
    }
    // A comma may follow the last parameter.
    if parts.last().is_some_and(|last| last.trim().is_empty()) {
        parts.pop();
    }
    let plain =
        |name: &str| name.chars().all(|letter| letter.is_alphanumeric() || letter == '_') && !name.is_empty();
    parts
        .into_iter()
        .map(|part| part.split([':', '=']).next().unwrap_or_default().trim())
        .map(|name| plain(name).then_some(name))
        .collect()
}

/// A tensor or number that goes in or comes out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Passed<'a> {
    pub(super) name: &'a str,
    pub(super) dtype: Dtype,
    /// A Python number.
    pub(super) number: bool,
}

/// A function that calls `run` with `inputs` in its order, and is itself called with the tensors by position and the
/// numbers by keyword. Outputs that are numbers become tensors.
pub(super) fn by_keyword(name: &str, inputs: &[Passed<'_>], outputs: &[Passed<'_>]) -> String {
    let tensors = || inputs.iter().filter(|input| !input.number);
    let numbers: Vec<_> = inputs.iter().filter(|input| input.number).map(|input| input.name).collect();
    let mut parameters: Vec<_> = tensors().map(|tensor| tensor.name).collect();
    if !numbers.is_empty() {
        parameters.push("*");
        parameters.extend(&numbers);
    }
    let order: Vec<_> = inputs.iter().map(|input| input.name).collect();
    let mut text = "\n\n# How `verify` calls it: tensors by position, then numbers by keyword. Made by `kernelwright import`.\n"
        .to_owned();
    let call = format!("run({})", order.join(", "));
    let head = format!("def {name}({}):\n", parameters.join(", "));
    if !outputs.iter().any(|output| output.number) {
        return text + &head + &format!("    return {call}\n");
    }
    text += &head;
    text += "    import torch\n\n";
    // The names of outputs differ from those of inputs.
    let locals: Vec<_> = outputs.iter().map(|output| output.name).collect();
    let locals = locals.join(", ");
    text += &format!("    {locals} = {call}\n");
    let like = tensors().find(|tensor| tensor.dtype.is_float()).or_else(|| tensors().next());
    for output in outputs.iter().filter(|output| output.number) {
        let name = output.name;
        let dtype = format!("torch.{}", output.dtype.torch_name());
        text += &match like {
            Some(like) if output.dtype.is_float() && like.dtype.is_float() => {
                let like = like.name;
                // The oracle computes in double precision, and its numbers keep it.
                let wide = format!("torch.float64 if {like}.dtype == torch.float64 else {dtype}");
                format!("    {name} = torch.as_tensor({name}, dtype={wide}, device={like}.device)\n")
            }
            Some(like) => {
                format!("    {name} = torch.as_tensor({name}, dtype={dtype}, device={}.device)\n", like.name)
            }
            None => format!("    {name} = torch.as_tensor({name}, dtype={dtype})\n"),
        };
    }
    text + &format!("    return {locals}\n")
}

/// A function `run` that calls `function` as op.toml says. `inputs` are in the order of `run`.
pub(super) fn run(function: &str, inputs: &[Passed<'_>]) -> String {
    let names: Vec<_> = inputs.iter().map(|input| input.name).collect();
    let tensors = inputs.iter().filter(|input| !input.number).map(|input| input.name.to_owned());
    let numbers = inputs.iter().filter(|input| input.number).map(|input| format!("{0}={0}", input.name));
    let passed: Vec<_> = tensors.chain(numbers).collect();
    format!(
        "\n\n# What flashinfer-bench calls: everything by position. Made by `kernelwright export`.\n\
         def run({}):\n    return {function}({})\n",
        names.join(", "),
        passed.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_signature_is_read_and_another_is_not() {
        let names = |signature: &str| parameters(signature, "run").map(|names| names.join(" "));
        assert_eq!(names("import x\ndef run(a, b: T[int, 2] = (1, 2), c=3):\n").as_deref(), Some("a b c"));
        assert_eq!(names("def run(\n    a: torch.Tensor,\n    b,\n) -> None:\n").as_deref(), Some("a b"));
        assert_eq!(names("def run():").as_deref(), Some(""));
        for other in
            ["def run(a, *, b):", "def run(a, /):", "def run(a, b=\")\"):", "def runs(a):", "x", "def run(a"]
        {
            assert_eq!(names(other), None, "{other}");
        }
    }
}
