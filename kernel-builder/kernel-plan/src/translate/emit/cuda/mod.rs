//! Device code, and how it is started.
//!
//! Owns: which skeleton a kernel has, and the settings. Never: a skeleton; the files beside this one are one each.

mod column;
mod launches;
mod parts;
mod pointwise;
mod row;
mod scan;
mod transposition;
mod writer;

use super::super::kernel::{Form, Kernel, Role};
use super::super::plan::Plan;
use super::super::program::Program;
use super::project::Project;
use super::words::Lines;
use crate::spec::SETTINGS;

pub(super) use launches::Launches;
use writer::Writer;

/// Device code with its launches.
pub(super) struct Cuda {
    pub(super) text: String,
    pub(super) launches: Launches,
}

/// Writes all kernels.
pub(super) fn source(program: &Program, plan: &Plan, project: &Project) -> Cuda {
    let mut lines = Lines::new();
    let op = &project.op;
    lines.add(
        0,
        format!(
            "// What `{}` of {} computes, in {}.",
            program.function,
            project.file,
            match plan.kernels.len() {
                1 => "one kernel".to_owned(),
                number => format!("{number} kernels"),
            }
        ),
    );
    lines.add(0, "// Owns: the kernels. Never: chooses among them; [launch] of op.toml does. Written by `kernelwright new`; it is yours.");
    lines.add(0, "");
    lines.add(0, "#include \"team.cuh\"");
    lines.add(0, "");
    lines.add(0, format!("namespace {op}_steps {{"));
    lines.add(0, "");
    lines.add(0, "using namespace steps;");
    lines.add(0, "using namespace team;");
    let mut launches = Launches::default();
    for (number, kernel) in plan.kernels.iter().enumerate() {
        let name = if plan.kernels.len() == 1 { "apply".to_owned() } else { format!("apply_{number}") };
        let suffix = if plan.kernels.len() == 1 { String::new() } else { format!("_{number}") };
        let writer = Writer::new(program, plan, kernel, format!("{op}_steps"), name, suffix);
        lines.add(0, "");
        writer.write(&mut lines, &mut launches);
    }
    lines.add(0, "");
    lines.add(0, format!("}}  // namespace {op}_steps"));
    launches.tune = tune(plan, &launches.lets);
    Cuda { text: lines.finish(), launches }
}

/// Tunables that keep their default if a region has so many skeletons that all combinations would be too many. Those that matter least
/// come first.
const FIXED: [&str; 9] = [
    "tile_unroll",
    "column_bytes",
    "tile_beside",
    "cluster_threads",
    "part_threads",
    "spread",
    "widest",
    "block",
    "tile_threads",
];

/// Threads of a short row by default: a warp, or fewer if the length of all rows is known and a warp would have more threads than
/// a row has packs of 16 bytes in float32.
fn narrow(plan: &Plan) -> i32 {
    let rows = plan.kernels.iter().filter(|one| one.form() == Form::Row);
    let packs = rows.map(|row| row.length(Role::Reduced).value().map_or(i64::MAX, |length| (length + 3) / 4));
    let most = packs.max().unwrap_or(i64::MAX);
    [4, 8, 16].into_iter().find(|threads| i64::from(*threads) >= most).unwrap_or(32)
}

/// A tunable: its comment, its name, its values as they are written, and its default.
type Tunable = (&'static str, &'static str, String, i32);

/// Leaves tunables their default until a search has no more than `SETTINGS` settings.
fn limit(tunables: &mut [Tunable]) {
    for fixed in FIXED {
        let counts = tunables.iter().map(|(_, _, values, _)| values.split(',').count() as u64);
        // `reread` doubles them.
        if 2 * counts.product::<u64>() <= SETTINGS {
            return;
        }
        for (_, _, values, default) in tunables.iter_mut().filter(|(_, name, ..)| *name == fixed) {
            *values = format!("[{default}]");
        }
    }
}

/// `[tune]`: the settings of the skeletons that are there.
fn tune(plan: &Plan, lets: &str) -> String {
    let has = |form: Form| plan.kernels.iter().any(|kernel| kernel.form() == form);
    let transposes = has(Form::Transposition);
    // Rows that may be short have a kernel that transposes nothing.
    let may_be_short = |one: &Kernel| one.axes.last().is_some_and(|axis| axis.length.value().is_none());
    let scans_rows = plan.kernels.iter().any(Kernel::scans_rows);
    let scans_columns = plan.kernels.iter().any(|one| one.form() == Form::Scan && !one.scans_rows());
    let is_pointwise = |one: &Kernel| {
        one.form() == Form::Pointwise || (one.form() == Form::Transposition && may_be_short(one))
    };
    let (pointwise, rows) = (plan.kernels.iter().any(is_pointwise), has(Form::Row));
    // With more packs, more loads are on their way together; where a row is kept for its results, registers are few.
    let writes_rows = plan.kernels.iter().any(|one| one.form() == Form::Row && one.writes_all());
    let units = if writes_rows { 2 } else { 4 };
    // Searches join more between their threads, and a column that is held needs registers of many threads.
    let is_wide = |one: &Kernel| {
        one.form() == Form::Column
            && (one.writes_all() || one.reductions.iter().any(|one| one.how.is_place()))
    };
    let column_threads = if plan.kernels.iter().any(is_wide) { 512 } else { 128 };
    let settings = [
        (
            pointwise || transposes || rows || scans_rows,
            "Bytes of one access to the widest tensor.",
            "bytes",
            "[4, 8, 16]",
            16,
        ),
        (pointwise, "", "block", "[64, 128, 256, 512, 1024]", 256),
        (pointwise, "Vectors of results that a thread makes.", "unroll", "[1, 2, 4, 8]", 2),
        (transposes, "Bytes of one access to a tensor that is transposed.", "tile_bytes", "[4, 8, 16]", 8),
        (
            transposes,
            "Threads side by side along a row of the results, if they read and write packs.",
            "tile_beside",
            "[4, 8, 16]",
            16,
        ),
        (transposes, "Threads of a block that transposes.", "tile_threads", "[64, 128, 256, 512]", 256),
        (transposes, "Tiles of a thread: at least this many.", "tile_unroll", "[1, 2, 4]", 1),
        (rows, "Packs of a thread in a row that is held: at least this many.", "units", "[1, 2, 4]", units),
        (
            rows,
            "Threads of a row that a block holds, before each has more packs.",
            "widest",
            "[256, 512, 1024]",
            512,
        ),
        (
            rows,
            "Threads of a short row, which has `narrow * units` packs at most.",
            "narrow",
            "[4, 8, 16, 32]",
            narrow(plan),
        ),
        (rows, "Threads of a row that is not held.", "threads", "[128, 256, 512, 1024]", 1024),
        (
            lets.contains("part_threads"),
            "Threads of a part of a row.",
            "part_threads",
            "[128, 256, 512, 1024]",
            256,
        ),
        (
            scans_rows,
            "Threads of a long row that is scanned.",
            "scan_row_threads",
            "[128, 256, 512, 1024]",
            512,
        ),
        (
            lets.contains("clusters"),
            "The most blocks of a cluster that holds a longer row. 1: none does. Clusters need capability 9.0.",
            "clusters",
            "[1, 2, 4, 8]",
            1,
        ),
        (
            lets.contains("clusters"),
            "Threads of a block of a cluster.",
            "cluster_threads",
            "[256, 512, 1024]",
            512,
        ),
        (
            has(Form::Column),
            "Bytes of a thread's neighboring columns, of the widest tensor.",
            "column_bytes",
            "[2, 4, 8, 16]",
            8,
        ),
        (
            has(Form::Column),
            "Threads of a block, of which 32 are neighbors.",
            "column_threads",
            "[128, 256, 512, 1024]",
            column_threads,
        ),
        (
            scans_columns,
            "The most threads of a block of 32 columns that are scanned.",
            "scan_threads",
            "[32, 128, 256, 512, 1024]",
            512,
        ),
        (
            lets.contains("spread"),
            "Results of many elements are divided among blocks where there are fewer blocks than this.",
            "spread",
            "[0, 132, 264, 528, 1056]",
            1056,
        ),
    ];
    let mut text = String::from("[tune]\n");
    if pointwise {
        text += "# More do not fit into the registers.\nconstraints = [\"block * unroll <= 4096\"]\n";
    }
    let settings = settings.into_iter().filter(|(is_there, ..)| *is_there);
    let mut settings: Vec<Tunable> =
        settings.map(|(_, words, name, values, default)| (words, name, values.to_owned(), default)).collect();
    limit(&mut settings);
    for (words, name, values, default) in settings {
        let words = if words.is_empty() { String::new() } else { format!("# {words}\n") };
        text += &format!("\n{words}[tune.{name}]\nvalues = {values}\ndefault = {default}\n");
    }
    if rows {
        text += "\n# Reads a row again for every round, even if it fits into registers.\n[tune.reread]\n\
                 values = [true, false]\ndefault = false\n";
    }
    if text == "[tune]\n" { String::new() } else { text }
}

impl Writer<'_> {
    fn write(self, lines: &mut Lines, launches: &mut Launches) {
        lines.add(
            0,
            format!("// {}.", super::table::summary(self.words.program, self.words.plan, self.kernel())),
        );
        match self.kernel().form() {
            Form::Pointwise => self.pointwise(lines, launches, ""),
            Form::Transposition => self.transposition(lines, launches),
            Form::Row => self.row(lines, launches),
            Form::Column => self.column(lines, launches),
            Form::Scan => self.scan(lines, launches),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the tunables of all skeletons together some keep their default; few tunables keep their values.
    #[test]
    fn a_search_has_a_limited_number_of_settings() {
        let all = |names: &[&'static str]| -> Vec<Tunable> {
            names.iter().map(|name| ("", *name, "[1, 2, 4, 8]".to_owned(), 4)).collect()
        };
        let mut few = all(&FIXED);
        limit(&mut few);
        assert_eq!(few, all(&FIXED));
        let mut many = all(&FIXED);
        many.extend(all(&["bytes", "unroll", "units", "narrow"]));
        limit(&mut many);
        let fixed: Vec<&str> =
            many.iter().filter(|(_, _, values, _)| values == "[4]").map(|(_, name, ..)| *name).collect();
        assert_eq!(fixed, FIXED[..2]);
    }
}
