//! What a linked library wants of the C and C++ libraries that systems of the manylinux_2_28 age lack.
//!
//! Owns: the check after the link; it reads the loader's own tables, which stripping leaves.
//! Never: decides what becomes of the library.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use kernel_plan::kit::PortableKit;

use super::error::PortableError;
use super::symbols;
use super::version::{Age, age};
use crate::base::files;

/// One thing that older systems lack.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Need {
    /// The symbol; absent where only the version is known.
    pub symbol: Option<String>,
    /// The version in which it came, e.g. `GLIBC_2.34`.
    pub version: String,
}

impl fmt::Display for Need {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.symbol {
            Some(symbol) => write!(out, "`{symbol}` ({})", self.version),
            None => write!(out, "{}", self.version),
        }
    }
}

/// Everything that keeps `library` from loading on a system of the manylinux_2_28 age, sorted; empty is good.
///
/// Two ways lead there: a version that is too new, when the library was linked with this machine's own libraries, and
/// a name without a version, when the stand-ins do not have it. The latter is told from torch's names by the kit's
/// list of newer ones. A weak name may be absent, so it is no need.
pub fn beyond(library: &Path, kit: &PortableKit) -> Result<Vec<Need>, PortableError> {
    let data = files::read(library)?;
    let text = files::read_text(&kit.newer)?;
    let newer: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once(' ')).collect();
    let symbols = symbols::read(library, &data)?.symbols;
    let mut needs = Vec::new();
    for symbol in symbols.iter().filter(|symbol| !symbol.defined && !symbol.weak) {
        let version = match &symbol.version {
            Some(version) => Some(version.as_str()).filter(|version| age(version) == Age::Newer),
            None => newer.get(symbol.name.as_str()).copied(),
        };
        needs.extend(
            version.map(|version| Need { symbol: Some(symbol.name.clone()), version: version.to_owned() }),
        );
    }
    // A version can be wanted without a symbol, by the linker itself or by weak names: the loader refuses it as well.
    for (_, version) in symbols::required_versions(library, &data)? {
        let named = needs.iter().any(|need: &Need| need.version == version);
        if age(&version) == Age::Newer && !named {
            needs.push(Need { symbol: None, version });
        }
    }
    needs.sort();
    Ok(needs)
}
