//! Which releases are fetched, read from the tables in `pins/`.
//!
//! Owns: their shape. Never: knows an address.

use kernel_plan::units::Version;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::error::ToolchainError;
use crate::base::digest::DigestBuilder;

const TOOLS: &str = include_str!("pins/tools.toml");
const CUDA: &str = include_str!("pins/cuda.toml");
const TORCH: &str = include_str!("pins/torch.toml");

/// The text of every table: what a resolved toolchain depends on.
pub(super) const TEXTS: [&str; 3] = [TOOLS, CUDA, TORCH];

/// Which of a release's wheels is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// One of which nothing is run or imported: the same file on every machine with this processor, whatever Python asks.
    Machine,
    /// One for the interpreter that asks.
    Interpreter,
}

/// All tables.
#[derive(Debug)]
pub(super) struct Pins {
    pub(super) pip: Installer,
    /// The client alone, for a Python that has torch.
    pub(super) client: Vec<String>,
    /// tvm_ffi alone.
    pub(super) tvm_ffi: Vec<String>,
    cuda: Vec<CudaPins>,
    pub(super) common: CommonPins,
    pub(super) torch: Vec<TorchPins>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolTable {
    pip: Installer,
    client: Vec<String>,
    #[serde(rename = "tvm-ffi")]
    tvm_ffi: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CudaTable {
    cuda: Vec<CudaPins>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TorchTable {
    common: CommonPins,
    torch: Vec<TorchPins>,
}

/// The installer that is asked for addresses.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Installer {
    pub(super) version: String,
}

/// One CUDA version.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CudaPins {
    pub(super) version: String,
    pub(super) wheels: Vec<Part>,
    /// The folders inside the wheels that become the toolkit's root.
    pub(super) roots: Vec<String>,
    /// The runtime library, from the root.
    pub(super) cudart: String,
    /// The other table's compiler, for wheels that hold none.
    pub(super) front: Option<FrontPins>,
    /// The compiler as a library.
    pub(super) nvrtc: Option<Part>,
}

/// Which compiler works with the wheels of a release that has none in them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FrontPins {
    /// The version of the table that holds it.
    pub(super) version: String,
    /// The version of PTX that the release's own assembler knows.
    pub(super) ptx: String,
    /// The build number of the release's own compiler.
    pub(super) build: u32,
}

/// One PyTorch release line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct TorchPins {
    pub(super) line: String,
    pub(super) version: String,
    /// The oldest and the newest Python that there is a wheel for.
    pub(super) python: (String, String),
    pub(super) megabytes: Megabytes,
    /// Python files that are left empty without a GPU.
    #[serde(default)]
    pub(super) blank: Vec<String>,
    pub(super) cudart: Part,
}

impl TorchPins {
    /// The release line, and the CUDA that its wheel is built for: that of the runtime library beside it.
    pub(super) fn build(&self) -> Option<(Version, Version)> {
        let (cuda, _) = self.cudart.version.rsplit_once('.')?;
        Some((self.line.parse().ok()?, cuda.parse().ok()?))
    }
}

/// About how much there is to fetch.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Megabytes {
    headers: u32,
    runtime: u32,
    /// With everything that only a GPU needs.
    pub(super) complete: u32,
}

/// What every release of PyTorch has alike.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CommonPins {
    headers: Choice,
    runtime: Choice,
    /// About how much `packages` are to fetch.
    megabytes: u32,
    /// Beside torch, without a GPU: requirements.
    pub(super) packages: Vec<String>,
    /// Beside torch, with a GPU: requirements.
    pub(super) beside: Vec<String>,
}

/// Which members of a wheel are taken.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Choice {
    take: Vec<String>,
    #[serde(default)]
    skip: Vec<String>,
}

impl Pins {
    /// The headers of this release, as a part of its wheel.
    pub(super) fn headers(&self, torch: &TorchPins) -> Part {
        torch_part(torch, torch.megabytes.headers, &self.common.headers)
    }

    /// About how much a whole Python with this release is to fetch.
    pub(super) fn megabytes(&self, torch: &TorchPins, gpu: bool) -> u32 {
        let Megabytes { headers, runtime, complete } = torch.megabytes;
        if gpu { complete } else { headers + runtime + self.common.megabytes }
    }

    /// What running without a GPU needs of the wheel, beside the headers.
    pub(super) fn runtime(&self, torch: &TorchPins) -> Part {
        torch_part(torch, torch.megabytes.runtime, &self.common.runtime)
    }

    /// The translator from CUDA to HIP of the newest release, or of `line`.
    pub(super) fn hipify(&self, line: Option<&str>) -> Result<Part, ToolchainError> {
        let newest = self.torch.iter().max_by_key(|pins| pins.line.parse::<Version>().ok());
        let line = line.or_else(|| newest.map(|pins| pins.line.as_str())).unwrap_or_default();
        let choice = Choice { take: vec![format!("{HIPIFY}/")], skip: Vec::new() };
        Ok(torch_part(self.torch(line)?, 1, &choice))
    }
}

/// The package inside torch's wheel that translates CUDA to HIP.
pub(super) const HIPIFY: &str = "torch/utils/hipify";

fn torch_part(torch: &TorchPins, megabytes: u32, choice: &Choice) -> Part {
    let Choice { take, skip } = choice.clone();
    Part { name: "torch".to_owned(), version: torch.version.clone(), megabytes, take, skip }
}

/// A part of a wheel.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) version: String,
    /// About how much there is to fetch.
    pub(super) megabytes: u32,
    pub(super) take: Vec<String>,
    #[serde(default)]
    pub(super) skip: Vec<String>,
}

impl Part {
    /// Which members are taken, as a short text that two parts share when they take the same.
    pub(super) fn choice(&self) -> String {
        let take = self.take.iter().map(|take| ("take", take));
        let skip = self.skip.iter().map(|skip| ("skip", skip));
        let all =
            take.chain(skip).fold(DigestBuilder::new("wheel-choice"), |id, (key, text)| id.field(key, text));
        all.finish().short(16)
    }

    /// Whether the member called `name` belongs to this part.
    pub(super) fn holds(&self, name: &str) -> bool {
        let begins = |list: &[String]| list.iter().any(|prefix| name.starts_with(prefix.as_str()));
        begins(&self.take) && !begins(&self.skip)
    }
}

/// The tables that this program was built with.
pub(super) fn load() -> Pins {
    let tools: ToolTable = table(TOOLS);
    let cuda: CudaTable = table(CUDA);
    let torch: TorchTable = table(TORCH);
    Pins {
        pip: tools.pip,
        client: tools.client,
        tvm_ffi: tools.tvm_ffi,
        cuda: cuda.cuda,
        common: torch.common,
        torch: torch.torch,
    }
}

fn table<T: DeserializeOwned>(text: &str) -> T {
    toml::from_str(text).expect("the tables are part of the program and parse: tested below")
}

impl Pins {
    /// Every part of a wheel that is ever fetched.
    pub(super) fn parts(&self) -> Vec<(Target, Part)> {
        let cuda = self.cuda.iter().flat_map(|cuda| &cuda.wheels).cloned();
        let headers = self.torch.iter().map(|torch| self.headers(torch));
        let runs = self.torch.iter().flat_map(|torch| [self.runtime(torch), torch.cudart.clone()]);
        let all = cuda.chain(headers).map(|part| (Target::Machine, part));
        all.chain(runs.map(|part| (Target::Interpreter, part))).collect()
    }

    /// The CUDA versions of the table.
    pub(super) fn cuda_versions(&self) -> Vec<Version> {
        self.cuda.iter().filter_map(|pins| pins.version.parse().ok()).collect()
    }

    /// The release lines of torch in the table.
    pub(super) fn torch_versions(&self) -> Vec<Version> {
        self.torch.iter().filter_map(|pins| pins.line.parse().ok()).collect()
    }

    pub(super) fn cuda(&self, version: &str) -> Result<&CudaPins, ToolchainError> {
        self.cuda.iter().find(|pins| pins.version == version).ok_or_else(|| ToolchainError::UnknownCuda {
            version: version.to_owned(),
            known: join(self.cuda.iter().map(|pins| pins.version.as_str())),
        })
    }

    pub(super) fn torch(&self, line: &str) -> Result<&TorchPins, ToolchainError> {
        self.torch.iter().find(|pins| pins.line == line).ok_or_else(|| ToolchainError::UnknownTorch {
            version: line.to_owned(),
            known: join(self.torch.iter().map(|pins| pins.line.as_str())),
        })
    }
}

fn join<'a>(items: impl Iterator<Item = &'a str>) -> String {
    items.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_parse_and_parts_choose() {
        let pins = load();
        let part = pins.runtime(pins.torch("2.11").unwrap());
        assert!(part.holds("torch/lib/libtorch_cpu.so"));
        assert!(!part.holds("torch/lib/libtorch_cuda_linalg.so"));
        assert!(pins.cuda("13.0").is_ok());
        assert_eq!(pins.cuda_versions().len(), pins.cuda.len());
        assert_eq!(pins.torch_versions().len(), pins.torch.len());
        let unknown = pins.cuda("9.9").unwrap_err().to_string();
        assert!(unknown.starts_with("no wheels are known for CUDA 9.9; known: "), "{unknown}");
    }
}
