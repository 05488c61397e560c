//! What can be built on a machine, and what is missing for the rest.
//!
//! Owns: the answer for one variant, in words. Never: looks what is installed; the caller says.

use std::fmt;

use crate::units::{BackendId, Version};

use super::{Cpu, Framework, Os, Provider, Row, Toolkit, Variant};

/// A machine with what its toolchain providers have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provision {
    /// The machine's processor.
    pub cpu: Cpu,
    /// The machine's operating system.
    pub os: Os,
    /// What is asked, best first.
    pub offers: Vec<Offer>,
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
    /// The row names other providers.
    Provider(Vec<Provider>),
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machine(cpu, os) => write!(f, "it needs a machine with {cpu} and {os}"),
            Self::Backend(backend) => write!(f, "this version compiles nothing for {backend}"),
            Self::Torch(version, known) => {
                write!(f, "this version has no toolchain for torch {version} ({known})")
            }
            Self::TvmFfi(version, known) => {
                write!(f, "this version has no headers of tvm-ffi {version} ({known})")
            }
            Self::Cuda(version, known) => {
                write!(f, "this version has no toolchain for CUDA {version} ({known})")
            }
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

    /// `wheels: 13.0; system: 13.0`.
    fn known(&self, versions: impl Fn(&Offer) -> &Vec<Version>) -> String {
        let offers = self.offers.iter().map(|offer| {
            let versions: Vec<_> = versions(offer).iter().map(ToString::to_string).collect();
            format!("{}: {}", offer.provider, versions.join(", "))
        });
        offers.collect::<Vec<_>>().join("; ")
    }
}

/// The best of `offers` that the row names.
fn named(offers: &[&Offer], row: &Row) -> Result<Provider, Missing> {
    let named = offers.iter().map(|offer| offer.provider).find(|found| row.providers.contains(found));
    named.ok_or_else(|| Missing::Provider(row.providers.clone()))
}
