//! Reads variants.toml, the list of variants that are built.
//!
//! Owns: the rows, and that the id of each follows from its axes.
//! Never: contains a row itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::diagnostic::{Problem, SourceFile, has_errors};
use crate::spec::Spanned;
use crate::spec::read::{self, Table};
use crate::units::{BackendId, VariantId, Version};

use super::{AbiName, Compiled, Cpu, Framework, Noarch, Os, Provider, Toolkit, Torch, Variant, codes};

/// The rows of variants.toml, in file order.
#[derive(Debug, Clone)]
pub struct Matrix {
    /// The file, for problems that point into it.
    pub file: Arc<SourceFile>,
    /// The rows; no two are the same variant.
    pub rows: Vec<Row>,
}

/// One variant with what can build it.
#[derive(Debug, Clone)]
pub struct Row {
    /// The variant, with the place of its id.
    pub variant: Spanned<Variant>,
    /// Where its toolchain can come from, best first; empty: from nowhere yet.
    pub providers: Vec<Provider>,
}

impl Matrix {
    /// The row of a variant that was chosen from this matrix.
    pub fn row(&self, variant: &Variant) -> Option<&Row> {
        self.rows.iter().find(|row| row.variant.value == *variant)
    }

    /// Every torch that some row is built against, oldest first.
    pub fn torch_versions(&self) -> BTreeSet<Version> {
        self.rows.iter().filter_map(|row| Some(row.variant.value.torch()?.version)).collect()
    }

    /// Every CUDA toolkit that some row is built with, oldest first.
    pub fn cuda_versions(&self) -> BTreeSet<Version> {
        self.rows.iter().filter_map(|row| row.variant.value.cuda()).collect()
    }

    /// Reads the text of variants.toml.
    ///
    /// # Errors
    /// Everything that is wrong with it, in file order.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        let file = SourceFile::new("variants.toml", text);
        let (rows, problems) = read::document(&file, rows);
        match rows {
            Some(rows) if !has_errors(&problems) => Ok(Self { file, rows }),
            _ => Err(problems),
        }
    }
}

fn rows(mut root: Table<'_>) -> Option<Vec<Row>> {
    let items = root.require_node("variant", "variant = [{ id, torch, abi, backend, cpu, os, providers }]");
    let items = items.and_then(|node| node.items()).unwrap_or_default();
    let mut rows: Vec<Row> = Vec::new();
    for row in items.iter().filter_map(|item| row(item.table()?)) {
        if let Some(earlier) = rows.iter().find(|earlier| earlier.variant.value == row.variant.value) {
            let problem = Problem::error(codes::DUPLICATE_ROW, "two rows are the same variant")
                .at(root.file(), &row.variant.span, "the second")
                .at(root.file(), &earlier.variant.span, "the first")
                .help("remove one of them");
            root.push(problem);
        }
        rows.push(row);
    }
    root.finish();
    Some(rows)
}

/// Every key that a row can have, read once.
struct Axes {
    id: Option<Spanned<VariantId>>,
    torch: Option<Spanned<Version>>,
    abi: Option<Spanned<AbiName>>,
    tvm_ffi: Option<Spanned<Version>>,
    noarch: Option<Spanned<bool>>,
    backend: Option<Spanned<BackendId>>,
    toolkit: Option<Spanned<Version>>,
    cpu: Option<Spanned<Cpu>>,
    os: Option<Spanned<Os>>,
}

fn row(mut table: Table<'_>) -> Option<Row> {
    let axes = Axes {
        id: table.require("id", "id = \"torch-stable-abi211-cu130-x86_64-linux\""),
        torch: table.get("torch"),
        abi: table.get("abi"),
        tvm_ffi: table.get("tvm-ffi"),
        noarch: table.get("noarch"),
        backend: table.require("backend", "backend = \"cuda\""),
        toolkit: table.get("toolkit"),
        cpu: table.get("cpu"),
        os: table.get("os"),
    };
    let providers = table
        .require_node("providers", "providers = [\"wheels\", \"system\"]")
        .and_then(|node| node.read::<Vec<Spanned<Provider>>>());
    let place = axes.id.as_ref().map_or_else(|| table.place(), |id| id.span.clone());
    let variant = match variant(&axes, &table) {
        Ok(variant) => variant,
        Err(Some(mismatch)) => {
            let problem = Problem::error(codes::AXES, mismatch).help(
                "a row has `torch` and `abi`, or `tvm-ffi`, with `cpu` and `os`; or only `noarch = true`",
            );
            table.report(problem, &place, "this row");
            None
        }
        Err(None) => None,
    };
    if let (Some(variant), Some(id)) = (&variant, &axes.id) {
        agree(variant, id, &table);
    }
    table.finish();
    let providers = providers?.value.into_iter().map(|provider| provider.value).collect();
    Some(Row { variant: Spanned::new(variant?, axes.id?.span), providers })
}

/// What the axes say. `Ok(None)` and `Err(None)`: something is missing and was reported; `Err(Some(..))`: what does not
/// go together.
fn variant(axes: &Axes, table: &Table<'_>) -> Result<Option<Variant>, Option<String>> {
    let Some(backend) = &axes.backend else { return Err(None) };
    if axes.noarch.as_ref().is_some_and(|noarch| noarch.value) {
        let versions = [&axes.torch, &axes.tvm_ffi, &axes.toolkit].into_iter().any(Option::is_some);
        if versions || axes.abi.is_some() || axes.cpu.is_some() || axes.os.is_some() {
            return Err(Some("a row with `noarch = true` cannot have versions or a machine".to_owned()));
        }
        return Ok(Some(Variant::Noarch(Noarch::For(backend.value))));
    }
    let (Some(cpu), Some(os)) = (&axes.cpu, &axes.os) else {
        return Err(Some("a row of compiled code needs `cpu` and `os`".to_owned()));
    };
    let framework = match (&axes.torch, &axes.abi, &axes.tvm_ffi) {
        (Some(torch), Some(abi), None) => {
            Framework::Torch(Torch { version: torch.value, abi: abi.value.abi(os.value) })
        }
        (None, None, Some(version)) => Framework::TvmFfi(version.value),
        (Some(_), None, None) => return Err(Some("`torch` needs `abi`".to_owned())),
        (None, Some(_), _) => return Err(Some("`abi` requires `torch`".to_owned())),
        (Some(_), _, Some(_)) => {
            return Err(Some("`torch` and `tvm-ffi` cannot be used together".to_owned()));
        }
        (None, None, None) => return Err(Some("`torch` or `tvm-ffi` is missing".to_owned())),
    };
    let toolkit = toolkit(table, backend, axes.toolkit.as_ref());
    Ok(toolkit
        .map(|toolkit| Variant::Compiled(Compiled { framework, toolkit, cpu: cpu.value, os: os.value })))
}

/// The toolkit of a row: some backends need a version, the others have none.
fn toolkit(
    table: &Table<'_>,
    backend: &Spanned<BackendId>,
    version: Option<&Spanned<Version>>,
) -> Option<Toolkit> {
    let found = Toolkit::new(backend.value, version.map(|version| version.value));
    if found.is_none() {
        let name = backend.value;
        let (message, help, span) = match version {
            Some(version) => {
                (format!("backend `{name}` has no toolkit version"), "remove `toolkit`", &version.span)
            }
            None => (
                format!("backend `{name}` needs the version of its toolkit"),
                "for example: toolkit = \"13.0\"",
                &backend.span,
            ),
        };
        table.report(Problem::error(codes::TOOLKIT, message).help(help), span, "here");
    }
    found
}

/// The id must follow from the axes, and the axes from the id.
fn agree(variant: &Variant, id: &Spanned<VariantId>, table: &Table<'_>) {
    let follows = variant.id();
    if follows != id.value {
        let problem = Problem::error(codes::ID_MISMATCH, format!("`{}` is not the id of this row", id.value))
            .help(format!("write `{follows}`, which follows from the axes"));
        table.report(problem, &id.span, "does not follow from the axes");
    } else if follows.as_str().parse() != Ok(*variant) {
        let problem = Problem::error(codes::AXES, format!("`{follows}` would be read as another variant")).help(
            "an id has one digit for the major version of torch and tvm-ffi, and one for the minor version of a toolkit",
        );
        table.report(problem, &id.span, "the versions of this row do not fit into an id");
    }
}
