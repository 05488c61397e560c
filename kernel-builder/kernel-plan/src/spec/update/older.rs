//! Editions 1 and 2, which nobody's tool reads any more.
//!
//! Owns: what is recognised of them, and what to write in its place by hand.
//! Never: changes a file.

use crate::diagnostic::Problem;
use crate::spec::codes;
use crate::spec::read::Table;

/// Reports everything that only editions 1 and 2 have, each with what edition 5 has for it.
pub(super) fn refuse(root: &mut Table<'_>, general: &mut Table<'_>) {
    let all = "[\"cann\", \"cpu\", \"cuda\", \"metal\", \"neuron\", \"rocm\", \"xpu\"]";
    for (key, instead) in [
        (
            "universal",
            format!("name the backends under [general]; `universal = true` stood for backends = {all}"),
        ),
        ("cuda-minver", "write it as `minver` under [general.cuda]".to_owned()),
        ("cuda-maxver", "write it as `maxver` under [general.cuda]".to_owned()),
    ] {
        if let Some(node) = general.node(key) {
            let problem =
                Problem::error(codes::EDITION, format!("`general.{key}` is of edition 2")).help(instead);
            general.report(problem, &node.span(), "edition 2");
        }
    }
    if general.node("backends").is_none() {
        let problem =
            Problem::error(codes::EDITION, "`general` has no `backends`, so the file is of edition 1 or 2")
                .help("name them under [general], for example: backends = [\"cuda\"]");
        general.report(problem, &general.place(), "`backends` is missing");
    }
    if let Some(mut torch) = root.table("torch")
        && let Some(node) = torch.node("universal")
    {
        let problem = Problem::error(codes::EDITION, "`torch.universal` is of edition 1")
            .help(format!("remove it; `universal = true` stood for backends = {all} under [general]"));
        torch.report(problem, &node.span(), "edition 1");
    }
    let kernels = root.table("kernel").map(|kernels| kernels.entries()).unwrap_or_default();
    for (name, node) in kernels {
        let Some(mut kernel) = node.table() else { continue };
        if let Some(language) = kernel.node("language") {
            let help = "write `backend = \"cuda\"` or `backend = \"metal\"`; for `cuda-hipify`, add a second section \
                        with the same sources and `backend = \"rocm\"`";
            let message = format!("`kernel.{}.language` is of edition 1", name.value);
            kernel.report(Problem::error(codes::EDITION, message).help(help), &language.span(), "edition 1");
        } else if kernel.node("backend").is_none() {
            let message = format!("`kernel.{}` has no `backend`, so the file is of edition 1", name.value);
            let problem =
                Problem::error(codes::EDITION, message).help("write `backend = \"cuda\"` in the section");
            kernel.report(problem, &name.span, "`backend` is missing");
        }
    }
}
