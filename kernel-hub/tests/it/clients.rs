//! The stock clients against the hub: huggingface_hub and `kernels` 0.17.2, where a Python has them.
//!
//! Owns: finding such a Python. Never: says what is right; clients/drive.py asserts it.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::server::Home;

const DRIVE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/clients/drive.py");

fn python() -> PathBuf {
    std::env::var_os("KERNELWRIGHT_PYTHON").map_or_else(|| PathBuf::from("python3"), PathBuf::from)
}

/// Whether a Python has these modules, with `site` first on its path.
fn has(modules: &str, site: Option<&Path>) -> bool {
    let mut command = Command::new(python());
    command.args(["-c", &format!("import {modules}")]);
    if let Some(site) = site {
        command.env("PYTHONPATH", site);
    }
    command.output().is_ok_and(|output| output.status.success())
}

/// Whether huggingface_hub may use `hf_xet`, as it does by default.
#[derive(Clone, Copy, PartialEq)]
enum Xet {
    Default,
    Disabled,
}

fn drive(part: &str, site: Option<&Path>, xet: Xet) {
    let home = Home::new();
    let server = home.serve(&[]);
    let cache = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(python());
    command.args([DRIVE, part]).current_dir(cache.path());
    command.env("HF_ENDPOINT", &server.url).env("HF_HOME", cache.path()).env("HF_TOKEN", &home.token);
    command.env("HF_HUB_DISABLE_PROGRESS_BARS", "1").env("NO_PROXY", "127.0.0.1");
    command.env("HF_HUB_DISABLE_XET", if xet == Xet::Disabled { "1" } else { "0" });
    for name in ["HF_HUB_OFFLINE", "HF_XET_CACHE", "HF_HUB_CACHE", "KERNELS_CACHE", "LOCAL_KERNELS"] {
        command.env_remove(name);
    }
    if let Some(site) = site {
        command.env("PYTHONPATH", site);
    }
    let output = command.output().expect("Python starts");
    let (said, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}\n{told}");
    assert!(said.trim_end().ends_with("steps passed"), "{said}");
}

#[test]
fn stock_clients_write_read_lock_and_download() {
    if !has("kernels.cli, huggingface_hub", None) {
        let reason = "no Python imports `kernels`; set KERNELWRIGHT_PYTHON or PYTHONPATH to one that does";
        assert!(std::env::var_os("KERNELWRIGHT_REQUIRE_OFFICIAL").is_none(), "{reason}");
        eprintln!("skipped: {reason}");
        return;
    }
    drive("write", None, Xet::Default);
    drive("write", None, Xet::Disabled);
}

/// `get_kernel` imports torch: the one of the cache that other tests use, too, or that of the Python itself.
#[test]
fn get_kernel_loads_by_version_and_revision_and_offline() {
    let modules = "torch, kernels, huggingface_hub";
    let Some(cache) = std::env::var_os("KERNELWRIGHT_TORCH_CACHE").map(PathBuf::from) else {
        if has(modules, None) {
            return drive("load", None, Xet::Default);
        }
        return eprintln!(
            "skipped: KERNELWRIGHT_TORCH_CACHE names no cache with torch, and no Python imports it"
        );
    };
    let entries =
        std::fs::read_dir(cache.join("python")).expect("the folder `python` of KERNELWRIGHT_TORCH_CACHE");
    let mut sites: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    sites.sort();
    let site = sites.iter().find(|site| site.join("torch").is_dir() && has(modules, Some(site)));
    let site = site
        .unwrap_or_else(|| panic!("no folder of {} has torch and kernels", cache.join("python").display()));
    drive("load", Some(site), Xet::Default);
}
