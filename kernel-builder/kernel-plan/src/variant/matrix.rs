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

use super::{Abi, Cpu, Os, Provider, Toolkit, Torch, Variant, codes};

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
    /// Where its toolchain can come from, best first.
    pub providers: Vec<Provider>,
}

impl Matrix {
    /// The row of a variant that was chosen from this matrix.
    pub fn row(&self, variant: &Variant) -> Option<&Row> {
        self.rows.iter().find(|row| row.variant.value == *variant)
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
    let items =
        root.require_node("variant", "[[variant]] with id, torch, abi, backend, cpu, os and providers");
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

fn row(mut table: Table<'_>) -> Option<Row> {
    let id = table.require::<VariantId>("id", "id = \"torch-stable-abi211-cu130-x86_64-linux\"");
    let torch = table.require::<Version>("torch", "torch = \"2.11\"");
    let abi = table.require::<Abi>("abi", "abi = \"stable\"");
    let backend = table.require::<BackendId>("backend", "backend = \"cuda\"");
    let version = table.get::<Version>("toolkit");
    let cpu = table.require::<Cpu>("cpu", "cpu = \"x86_64\"");
    let os = table.require::<Os>("os", "os = \"linux\"");
    let providers = table.require_list::<Provider>("providers", "providers = [\"wheels\", \"system\"]");
    let backend = backend.and_then(|backend| toolkit(&table, &backend, version));
    let variant =
        torch.zip(abi).zip(backend).zip(cpu).zip(os).map(|((((torch, abi), backend), cpu), os)| Variant {
            framework: Torch { version: torch.value, abi: abi.value },
            backend,
            cpu: cpu.value,
            os: os.value,
        });
    if let (Some(variant), Some(id)) = (&variant, &id)
        && variant.id() != id.value
    {
        let problem = Problem::error(codes::ID_MISMATCH, format!("`{}` is not the id of this row", id.value))
            .help(format!("the axes say `{}`", variant.id()));
        table.report(problem, &id.span, "does not follow from the axes below");
    }
    table.finish();
    let providers = providers?.value.into_iter().map(|provider| provider.value).collect();
    Some(Row { variant: Spanned::new(variant?, id?.span), providers })
}

/// The toolkit of a row: CUDA needs a version, the host compiler has none.
fn toolkit(
    table: &Table<'_>,
    backend: &Spanned<BackendId>,
    version: Option<Spanned<Version>>,
) -> Option<Toolkit> {
    let (problem, span) = match (backend.value, version) {
        (BackendId::Cpu, None) => return Some(Toolkit::Cpu),
        (BackendId::Cuda, Some(version)) if version.minor < 10 => return Some(Toolkit::Cuda(version.value)),
        (BackendId::Cuda, Some(version)) => {
            let message =
                format!("CUDA {} does not fit into an id, where the last digit is the minor", version.value);
            (Problem::error(codes::TOOLKIT, message).help("for example: toolkit = \"13.0\""), version.span)
        }
        (BackendId::Cpu, Some(version)) => {
            let problem =
                Problem::error(codes::TOOLKIT, "backend `cpu` has no toolkit").help("remove `toolkit`");
            (problem, version.span)
        }
        (BackendId::Cuda, None) => {
            let problem = Problem::error(codes::TOOLKIT, "backend `cuda` needs the version of its toolkit");
            (problem.help("for example: toolkit = \"13.0\""), backend.span.clone())
        }
        (other, _) => {
            let problem = Problem::error(
                codes::TOOLKIT,
                format!("this version compiles nothing for backend `{other}`"),
            );
            (problem.help("the choice is cpu, cuda"), backend.span.clone())
        }
    };
    table.report(problem, &span, "here");
    None
}

impl Matrix {
    /// Every torch that some row is built against, oldest first.
    pub fn torch_versions(&self) -> BTreeSet<Version> {
        self.rows.iter().map(|row| row.variant.framework.version).collect()
    }

    /// Every CUDA toolkit that some row is built with, oldest first.
    pub fn cuda_versions(&self) -> BTreeSet<Version> {
        let toolkits = self.rows.iter().map(|row| row.variant.backend);
        toolkits
            .filter_map(|toolkit| match toolkit {
                Toolkit::Cuda(version) => Some(version),
                Toolkit::Cpu => None,
            })
            .collect()
    }
}
