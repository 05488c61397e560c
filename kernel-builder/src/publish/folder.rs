//! Publishes to a folder: the layout of a hub repository, loadable with `kernels.get_local_kernel`.
//!
//! Owns: `<folder>/build/...`, `README.md`, `benchmarks/`, and the receipt in `.kernelwright.json`.
//! Never: touches a folder that holds anything else; leaves a half-written one.

use std::path::{Path, PathBuf};

use crate::base::digest::Digest;
use crate::base::{disk, files};
use crate::package::{Bundle, is_shipped};

use super::{PublishError, Receipt, contents, digest};

/// Marks a folder as ours and says what it holds.
const RECEIPT: &str = ".kernelwright.json";

/// Puts the bundle into `target`, in one step; the same content again changes nothing.
pub fn send(bundle: &Bundle, target: &Path) -> Result<Receipt, PublishError> {
    let previous = inspect(bundle, target)?;
    let contents = contents(bundle)?;
    let digest = digest(&contents)?;
    let mut receipt = Receipt {
        name: bundle.name.clone(),
        version: bundle.version,
        target: target.to_owned(),
        variants: bundle.variants.clone(),
        digest,
        changed: false,
    };
    if previous.is_some_and(|previous| previous.digest == digest) && published_digest(target)? == digest {
        return Ok(receipt);
    }
    receipt.changed = true;
    let staged = files::staging_beside(target)?;
    for (name, from) in &contents {
        files::copy(from, &staged.path().join(name))?;
    }
    // The place is not part of the receipt on disk: a folder may be moved or mounted elsewhere.
    let kept = Receipt { target: PathBuf::from("."), ..receipt.clone() };
    files::write(&staged.path().join(RECEIPT), serde_json::to_string_pretty(&kept).unwrap_or_default())?;
    disk::settle(staged.path())?;
    files::replace_dir(staged, target)?;
    if let Some(above) = target.parent() {
        disk::sync(above)?;
    }
    Ok(receipt)
}

/// What is in the target now: nothing, or an earlier publication of the same kernel. Anything else is refused.
fn inspect(bundle: &Bundle, target: &Path) -> Result<Option<Receipt>, PublishError> {
    if !files::exists(target) || files::is_empty_dir(target) {
        return Ok(None);
    }
    let text = files::read_text(&target.join(RECEIPT));
    let receipt: Option<Receipt> = text.ok().and_then(|text| serde_json::from_str(&text).ok());
    match receipt {
        None => Err(PublishError::ForeignFolder { dir: target.to_owned() }),
        Some(receipt) if receipt.name != bundle.name => Err(PublishError::OtherKernel {
            place: format!("`{}`", target.display()),
            there: receipt.name,
            ours: bundle.name.clone(),
        }),
        Some(receipt) => Ok(Some(receipt)),
    }
}

fn published_digest(target: &Path) -> Result<Digest, PublishError> {
    let names = files::walk(target, is_shipped)?;
    let contents: Vec<_> = names
        .into_iter()
        .filter(|name| name.as_os_str() != RECEIPT)
        .map(|name| (name.clone(), target.join(name)))
        .collect();
    digest(&contents)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle(root: &Path, text: &str) -> Bundle {
        let dir = root.join("build");
        files::write(&dir.join("torch-cpu/__init__.py"), text).unwrap();
        files::write(&dir.join("CARD.md"), "# k").unwrap();
        Bundle {
            name: "k".to_owned(),
            version: 1,
            variants: vec!["torch-cpu".to_owned()],
            status: Vec::new(),
            extra: Vec::new(),
            digest: Digest::blake3(b""),
            for_rust: vec![],
            lost_signature: false,
            dir,
        }
    }

    #[test]
    fn the_same_content_twice_changes_nothing_and_damage_is_mended() {
        let root = files::scratch().unwrap();
        let target = root.path().join("dist");
        let bundle = bundle(root.path(), "x = 1");
        assert!(send(&bundle, &target).unwrap().changed);
        assert!(!send(&bundle, &target).unwrap().changed);
        files::write(&target.join("build/torch-cpu/__init__.py"), "x = 2").unwrap();
        assert!(send(&bundle, &target).unwrap().changed);
        assert_eq!(files::read_text(&target.join("build/torch-cpu/__init__.py")).unwrap(), "x = 1");
        assert_eq!(files::read_text(&target.join("README.md")).unwrap(), "# k");
    }

    #[test]
    fn foreign_folders_and_other_kernels_are_left_alone() {
        let root = files::scratch().unwrap();
        let target = root.path().join("home");
        files::write(&target.join("thesis.txt"), "years of work").unwrap();
        let mine = bundle(root.path(), "x = 1");
        assert!(matches!(send(&mine, &target), Err(PublishError::ForeignFolder { .. })));
        assert_eq!(files::read_text(&target.join("thesis.txt")).unwrap(), "years of work");
        let dist = root.path().join("dist");
        send(&mine, &dist).unwrap();
        let other = Bundle { name: "other".to_owned(), ..mine };
        assert!(matches!(send(&other, &dist), Err(PublishError::OtherKernel { .. })));
    }
}
