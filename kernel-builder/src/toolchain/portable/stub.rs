//! The text of a stand-in library: an assembly file and a version script.
//!
//! Owns: what the linker must see of a library: names, versions, kinds, sizes. Never: runs the linker, holds code.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::symbols::{Kind, Symbol};

/// A stand-in as two texts for the compiler driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stub {
    /// GNU assembler.
    pub(super) assembly: String,
    /// GNU ld version script.
    pub(super) script: String,
}

/// Renders a stand-in that exports `symbols`, each with its version as the default one.
///
/// Every symbol has an address of its own: the linker takes equal addresses for two names of one thing and would then
/// record both. Data lies in sections without content, so sizes cost nothing.
pub(super) fn render(symbols: &[Symbol]) -> Stub {
    let mut assembly = ".section .note.GNU-stack,\"\"\n".to_owned();
    let mut nodes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for symbol in symbols {
        let Some(version) = &symbol.version else { continue };
        nodes.entry(version).or_default().push(&symbol.name);
        let (section, kind, space) = match symbol.kind {
            Kind::Function => (".text", "STT_FUNC", 1),
            Kind::Untyped => (".text", "STT_NOTYPE", 1),
            Kind::Object => (".bss", "STT_OBJECT", symbol.size.max(1)),
            Kind::ThreadLocal => (".section .tbss,\"awT\",%nobits", "STT_TLS", symbol.size.max(1)),
        };
        let binding = if symbol.weak { ".weak" } else { ".globl" };
        let (name, size) = (&symbol.name, symbol.size);
        let text = format!(
            "{section}\n{binding} \"{name}\"\n.type \"{name}\", {kind}\n.size \"{name}\", {size}\n\"{name}\":\n\
             .zero {space}\n"
        );
        assembly.push_str(&text);
    }
    let mut script = String::new();
    for (version, names) in &nodes {
        let names: String = names.iter().map(|name| format!("    \"{name}\";\n")).collect();
        // Writing to a string cannot fail.
        let _ = write!(script, "{version} {{\n  global:\n{names}}};\n");
    }
    // Nothing is left over; the linker wants a script not to be empty.
    script.push_str(if nodes.is_empty() { "{ local: *; };\n" } else { "" });
    Stub { assembly, script }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_and_a_variable() {
        let symbol = |name: &str, kind, weak, size| Symbol {
            name: name.to_owned(),
            version: Some("GLIBC_2.17".to_owned()),
            kind,
            weak,
            defined: true,
            retired: false,
            size,
        };
        let stub =
            render(&[symbol("environ", Kind::Object, true, 8), symbol("exit", Kind::Function, false, 32)]);
        assert_eq!(
            stub.assembly,
            ".section .note.GNU-stack,\"\"\n\
             .bss\n.weak \"environ\"\n.type \"environ\", STT_OBJECT\n.size \"environ\", 8\n\"environ\":\n.zero 8\n\
             .text\n.globl \"exit\"\n.type \"exit\", STT_FUNC\n.size \"exit\", 32\n\"exit\":\n.zero 1\n"
        );
        assert_eq!(stub.script, "GLIBC_2.17 {\n  global:\n    \"environ\";\n    \"exit\";\n};\n");
    }
}
