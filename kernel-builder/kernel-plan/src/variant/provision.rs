//! What can be built on a machine, and what is missing for the rest.
//!
//! Owns: the answer for one variant, in words. Never: looks what is installed; the caller says.

use std::fmt;

use crate::units::{BackendId, Version};

use super::{Abi, Compiled, Cpu, Framework, Os, Provider, Row, Toolkit, Variant};

/// A machine with what its toolchain providers have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provision {
    /// The machine's processor.
    pub cpu: Cpu,
    /// The machine's operating system.
    pub os: Os,
    /// What is asked, best first.
    pub offers: Vec<Offer>,
    /// What is installed for the backends that no wheel has a compiler for: rocm, xpu and metal.
    pub tools: Vec<Tool>,
}

/// The compiler of one backend, as this machine has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    /// Which backend.
    pub backend: BackendId,
    /// The version of its toolkit; else why it cannot be used, in words.
    pub found: Result<Version, String>,
    /// Where it is and how to name another one, in words; read after a version.
    pub place: String,
    /// The torch that the active Python has and that was built for this backend; else what it has, in words.
    pub torch: Result<Version, String>,
}

/// What one provider has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Who.
    pub provider: Provider,
    /// The torch releases that it has headers of.
    pub torch: Vec<Version>,
    /// The releases of tvm-ffi that it has headers of.
    pub tvm_ffi: Vec<Version>,
    /// The CUDA toolkits that it has.
    pub cuda: Vec<Version>,
}

/// Why a variant cannot be built here.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Missing {
    /// It is for another machine.
    Machine(Cpu, Os),
    /// The backend is not compiled for yet.
    Backend(BackendId),
    /// No provider has this torch; what there is, in words.
    Torch(Version, String),
    /// No provider has this tvm-ffi; what there is, in words.
    TvmFfi(Version, String),
    /// No provider has this CUDA; what there is, in words.
    Cuda(Version, String),
    /// The compiler of the backend is not there, or of another version; why, in words.
    Tool(String),
    /// The full ABI for this backend needs a torch that was built for it; what there is, in words.
    DeviceTorch(Version, BackendId, String),
    /// The row names other providers.
    Provider(Vec<Provider>),
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machine(cpu, os) => write!(f, "it needs a machine with {cpu} and {os}"),
            Self::Backend(backend) => write!(f, "this version cannot compile for {backend}"),
            Self::Torch(version, known) => {
                write!(f, "this version has no toolchain for torch {version} ({known})")
            }
            Self::TvmFfi(version, known) => {
                write!(f, "this version has no headers of tvm-ffi {version} ({known})")
            }
            Self::Cuda(version, known) => {
                write!(f, "this version has no toolchain for CUDA {version} ({known})")
            }
            Self::Tool(why) => f.write_str(why),
            Self::DeviceTorch(version, backend, found) => write!(
                f,
                "the full ABI needs the headers of torch {version} built for {backend} in the active \
                 Python: {found}"
            ),
            Self::Provider(others) => {
                let others: Vec<_> = others.iter().map(|provider| provider.as_str()).collect();
                let others = if others.is_empty() { "nobody".to_owned() } else { others.join(", ") };
                write!(f, "its toolchain comes from another provider: {others}")
            }
        }
    }
}

impl Provision {
    /// Who can build the variant of `row` here.
    ///
    /// # Errors
    /// What is missing.
    pub fn judge(&self, row: &Row) -> Result<Provider, Missing> {
        let Variant::Compiled(compiled) = row.variant.value else {
            // Files are put together: that takes no tools, and no machine of its own.
            return named(&self.offers.iter().collect::<Vec<_>>(), row);
        };
        if (compiled.cpu, compiled.os) != (self.cpu, self.os) {
            return Err(Missing::Machine(compiled.cpu, compiled.os));
        }
        let cuda = match compiled.toolkit {
            Toolkit::Cpu => None,
            Toolkit::Cuda(version) => Some(version),
            Toolkit::Rocm(_) | Toolkit::Xpu(_) | Toolkit::Metal => {
                return self.judge_device(row, compiled);
            }
            other => return Err(Missing::Backend(other.id())),
        };
        let mut offers: Vec<&Offer> = self.offers.iter().collect();
        if let Some(cuda) = cuda {
            offers.retain(|offer| offer.cuda.contains(&cuda));
            if offers.is_empty() {
                return Err(Missing::Cuda(cuda, self.known(|offer| &offer.cuda)));
            }
        }
        let missing = match compiled.framework {
            Framework::Torch(torch) => {
                offers.retain(|offer| offer.torch.contains(&torch.version));
                Missing::Torch(torch.version, self.known(|offer| &offer.torch))
            }
            Framework::TvmFfi(version) => {
                offers.retain(|offer| offer.tvm_ffi.contains(&version));
                Missing::TvmFfi(version, self.known(|offer| &offer.tvm_ffi))
            }
        };
        if offers.is_empty() { Err(missing) } else { named(&offers, row) }
    }

    /// The same for a backend whose compiler is in no wheel: it has to be installed, whoever has the headers.
    fn judge_device(&self, row: &Row, compiled: Compiled) -> Result<Provider, Missing> {
        let backend = compiled.toolkit.id();
        let tool = self.tools.iter().find(|tool| tool.backend == backend);
        let tool = tool.ok_or(Missing::Backend(backend))?;
        let found = tool.found.clone().map_err(Missing::Tool)?;
        if let Some(wanted) = compiled.toolkit.version()
            && found != wanted
        {
            let (name, place) = (name(backend), &tool.place);
            return Err(Missing::Tool(format!("the installed {name} is {found}, not {wanted} ({place})")));
        }
        let offered = |has: &dyn Fn(&Offer) -> bool| self.offers.iter().any(has);
        match compiled.framework {
            Framework::Torch(torch) => {
                let headers = match &tool.torch {
                    // One set of headers has all that the stable ABI needs, whatever torch was built for.
                    _ if torch.abi == Abi::Stable => Ok(()),
                    Ok(found) if *found == torch.version => Ok(()),
                    Ok(found) => Err(format!("it has {found}")),
                    Err(why) => Err(why.clone()),
                };
                headers.map_err(|found| Missing::DeviceTorch(torch.version, backend, found))?;
                if !offered(&|offer| offer.torch.contains(&torch.version)) {
                    return Err(Missing::Torch(torch.version, self.known(|offer| &offer.torch)));
                }
            }
            Framework::TvmFfi(version) => {
                if !offered(&|offer| offer.tvm_ffi.contains(&version)) {
                    return Err(Missing::TvmFfi(version, self.known(|offer| &offer.tvm_ffi)));
                }
            }
        }
        let named = row.providers.contains(&Provider::System);
        named.then_some(Provider::System).ok_or_else(|| Missing::Provider(row.providers.clone()))
    }

    /// `wheels: 13.0; system: 13.0`.
    fn known(&self, versions: impl Fn(&Offer) -> &Vec<Version>) -> String {
        let offers = self.offers.iter().map(|offer| {
            let versions: Vec<_> = versions(offer).iter().map(ToString::to_string).collect();
            format!("{}: {}", offer.provider, versions.join(", "))
        });
        offers.collect::<Vec<_>>().join("; ")
    }
}

/// What people call a backend's toolkit.
const fn name(backend: BackendId) -> &'static str {
    match backend {
        BackendId::Rocm => "ROCm",
        BackendId::Xpu => "oneAPI compiler",
        other => other.as_str(),
    }
}

/// The best of `offers` that the row names.
fn named(offers: &[&Offer], row: &Row) -> Result<Provider, Missing> {
    let named = offers.iter().map(|offer| offer.provider).find(|found| row.providers.contains(found));
    named.ok_or_else(|| Missing::Provider(row.providers.clone()))
}
