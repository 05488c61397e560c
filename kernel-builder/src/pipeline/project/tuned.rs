//! Files of settings in a project, and which of them is used here.
//!
//! Owns: finding and reading `tuned/*.toml`, and what is told of those that are not used. Never: knows the format;
//! `agent::tuned` does.

use std::path::Path;

use miette::Diagnostic;
use thiserror::Error;

use crate::agent::tuned::{self, Settings, TunedTable};
use crate::base::causes::chain;
use crate::base::digest::{Digest, DigestBuilder};
use crate::base::files;
use crate::base::session::Session;
use crate::device::gpu::Gpu;
use crate::device::wire::DeviceProperties;
use crate::exit::{self, Failure, StageError};
use crate::pipeline::project::device::{self, DeviceProject};
use crate::verify::{device as judge, gpu_present};

/// Where the files lie in a project.
const FOLDER: &str = "tuned";

/// Which settings device code is started with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// What `fill` found for this device, or for the nearest one.
    Tuned,
    /// The defaults of `[tune]`.
    Defaults,
}

impl Choice {
    /// What `--untuned` says.
    pub(crate) fn new(untuned: bool) -> Self {
        if untuned { Self::Defaults } else { Self::Tuned }
    }
}

/// A table of one kind lies where one of the other would be written.
#[derive(Debug, Error, Diagnostic)]
#[error("`{file}` is {there}, so {wanted} cannot replace it")]
#[diagnostic(
    code(agent::taken),
    help(
        "`fill` writes settings there, `bench --write-dispatch` dispatch tables: move or delete the one that you do not need"
    )
)]
struct TableConflict {
    file: String,
    there: &'static str,
    wanted: &'static str,
}

impl StageError for TableConflict {
    fn exit(&self) -> u8 {
        exit::AGENT
    }
}

/// The settings of every call of a project on the GPU that is here.
///
/// # Errors
/// A file of this source is damaged, or has settings that op.toml does not.
pub(crate) fn settings(
    project: &DeviceProject,
    choice: Choice,
    session: &Session,
) -> Result<Settings, Failure> {
    let defaults = Settings::defaults(&project.op);
    if choice == Choice::Defaults {
        return Ok(defaults);
    }
    let (mut names, mut tables) = (Vec::new(), Vec::new());
    for (name, table) in read_all(project, session)? {
        table.check(&name, &project.op)?;
        names.push(name);
        tables.push(table);
    }
    if tables.is_empty() {
        return Ok(defaults);
    }
    let about = if gpu_present() { judge::device(&mut Gpu::new())?.ok() } else { None };
    let Some(about) = about else {
        let text =
            format!("no NVIDIA GPU here, so {} is not used: every call uses the defaults", names.join(", "));
        session.report.note(text);
        return Ok(defaults);
    };
    let nearest = tuned::nearest(&tables, &about.name, about.capability, about.multiprocessors);
    let Some(place) = nearest else {
        let text = format!("no settings for {} or a similar GPU; `kernelwright fill` finds them", about.name);
        session.report.note(text);
        return Ok(defaults);
    };
    let (name, table) = (names.swap_remove(place), tables.swap_remove(place));
    if table.device == about.name {
        session.report.note(format!("settings of {name}"));
    } else {
        let text = format!(
            "settings of {name}, which is for {}, since there are none for {}; `kernelwright fill` finds them",
            table.device, about.name
        );
        session.report.note(text);
    }
    Ok(Settings::of_table(&name, table, &project.op)?)
}

/// Reads a folder or an op file, and which settings its calls have on the GPU that is here.
pub(crate) fn read_project(dir: &Path, choice: Choice, session: &Session) -> Result<DeviceProject, Failure> {
    let project = device::read(dir, session)?;
    let settings = settings(&project, choice, session)?;
    Ok(DeviceProject { settings, ..project })
}

/// Where the files of an operation lie: of one that is beside op.toml, in a folder of its own.
fn within(project: &DeviceProject) -> String {
    if project.is_beside() { format!("{FOLDER}/{}", project.op.name.value) } else { FOLDER.to_owned() }
}

/// Every file of settings that is of this operation and source, by name. One of another source is told and left out.
pub(crate) fn read_all(
    project: &DeviceProject,
    session: &Session,
) -> Result<Vec<(String, TunedTable)>, Failure> {
    let within = within(project);
    let folder = project.dir.join(&within);
    if !files::is_dir(&folder) {
        return Ok(vec![]);
    }
    let source = source_digest(project)?;
    let mut found = Vec::new();
    for file in files::walk(&folder, |_| false)? {
        if file.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let name = format!("{within}/{}", file.display());
        let text = files::read_text(&folder.join(&file))?;
        if !tuned::is_settings(&text) {
            continue;
        }
        let table = TunedTable::read(&name, &text)?;
        if table.op != project.op.name.value.as_str() {
            continue;
        }
        if table.source != source {
            session.report.warn(format!(
                "{name} is ignored: `{}`, its headers, [launch] or [tune] changed since it was written (source {}, here \
                 it is {source}); `kernelwright fill` finds new settings",
                project.source.name, table.source,
            ));
            continue;
        }
        found.push((name, table));
    }
    Ok(found)
}

/// The table of a device as it is in a project, to be continued; an empty one where there is none of this source. What is
/// written anew is told.
///
/// # Errors
/// A dispatch table lies there.
pub(crate) fn of_device(
    project: &DeviceProject,
    about: &DeviceProperties,
    session: &Session,
) -> Result<(String, TunedTable), Failure> {
    let source = source_digest(project)?;
    let name = format!("{}/{}", within(project), tuned::file_name(&about.name));
    let path = project.dir.join(&name);
    let (capability, count) = (about.capability, about.multiprocessors);
    let mut whole = TunedTable::empty(&project.op, &about.name, capability, count, source);
    if !files::exists(&path) {
        return Ok((name, whole));
    }
    let text = files::read_text(&path)?;
    if !tuned::is_settings(&text) {
        return Err(
            TableConflict { file: name, there: "not a settings file", wanted: "a settings file" }.into()
        );
    }
    let read =
        TunedTable::read(&name, &text).and_then(|table| table.check(&name, &project.op).map(|()| table));
    match read {
        Ok(table) if table.source == source && table.device == about.name => {
            (whole.settings, whole.spreads) = (table.settings, table.spreads);
        }
        Ok(_) => session.report.warn(format!("{name} is for another source or device: it will be replaced")),
        Err(error) => session.report.warn(format!("{}: it will be replaced", chain(&error))),
    }
    Ok((name, whole))
}

/// Fails where a dispatch table would be written over settings.
pub(crate) fn no_settings(path: &Path) -> Result<(), Failure> {
    if files::exists(path) && tuned::is_settings(&files::read_text(path)?) {
        let file = path.display().to_string();
        return Err(TableConflict { file, there: "a settings file", wanted: "a dispatch table" }.into());
    }
    Ok(())
}

/// Writes a table: to a temporary name, then renamed.
pub(crate) fn write(project: &DeviceProject, name: &str, table: &TunedTable) -> Result<(), Failure> {
    Ok(files::write(&project.dir.join(name), table.text())?)
}

/// The digest of what a setting is good for: the device code, the headers that it uses, how it is started, what is tuned.
pub(crate) fn source_digest(project: &DeviceProject) -> Result<Digest, Failure> {
    let launch = serde_json::to_vec(&project.op.launch).unwrap_or_default();
    let tune = serde_json::to_vec(&project.op.tune).unwrap_or_default();
    let mut digest = DigestBuilder::new("device-source")
        .field("source", &project.source.text)
        .field("launch", launch)
        .field("tune", tune);
    for (name, text) in project.source.headers()? {
        digest = digest.field("header", name).field("text", text);
    }
    Ok(digest.finish())
}

#[cfg(test)]
mod tests {
    use kernel_plan::diagnostic::SourceFile;

    use super::*;
    use crate::compile::nvrtc::Source;

    fn project(op: &str, source: &str) -> DeviceProject {
        let op = kernel_plan::spec::parse_op(SourceFile::new("op.toml", op)).0.unwrap();
        let source = Source { text: source.to_owned(), name: "k.cu".to_owned(), include: vec![], root: None };
        let settings = Settings::defaults(&op);
        DeviceProject {
            dir: "/nowhere".into(),
            op_name: "op.toml".to_owned(),
            op,
            source,
            archs: vec![],
            settings,
        }
    }

    #[test]
    fn tables_of_two_kinds_do_not_replace_each_other() {
        let folder = files::scratch().unwrap();
        let path = folder.path().join("nvidia-h200.toml");
        no_settings(&path).unwrap();
        files::write(&path, "format = 1\n").unwrap();
        no_settings(&path).unwrap();
        files::write(&path, "kind = \"settings\"\n").unwrap();
        let failure = no_settings(&path).unwrap_err();
        assert!(failure.reports[0].to_string().contains("nvidia-h200.toml"), "{failure:?}");
        assert_eq!(failure.exit, exit::AGENT);
    }

    #[test]
    fn settings_of_an_operation_beside_lie_in_a_folder_of_its_name() {
        let mut project = project(include_str!("../../../../examples/rms-norm-device/op.toml"), "");
        assert_eq!(within(&project), "tuned");
        project.op_name = "backward.toml".to_owned();
        assert_eq!(within(&project), "tuned/rms_norm");
    }

    #[test]
    fn a_setting_is_good_for_a_source_a_launch_and_its_tunables() {
        let text = include_str!("../../../../examples/rms-norm-device/op.toml");
        let digest = |op: &str, source: &str| source_digest(&project(op, source)).unwrap();
        let first = digest(text, "one");
        assert_eq!(first, digest(text, "one"));
        assert_ne!(first, digest(text, "other"));
        assert_ne!(first, digest(&text.replace("grid = [\"rows\"]", "grid = [\"rows + 0\"]"), "one"));
        assert_ne!(first, digest(&text.replace("values = [1, 2, 4, 8]", "values = [1, 2, 4]"), "one"));
        // Another workload, or another comment, changes nothing that was found.
        let more = format!("# a comment\n{text}\n[workload.more]\naxes = {{ rows = 9, hidden = 9 }}\n");
        assert_eq!(first, digest(&more, "one"));
    }
}
