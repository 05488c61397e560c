//! Device code, and how it is started.
//!
//! Owns: which skeleton a kernel has, and the settings. Never: a skeleton; the files beside this one are one each.

mod launches;
mod parts;
mod pointwise;
mod reduction;
mod scan;
mod writer;

use super::super::kernel::Form;
use super::super::plan::Plan;
use super::super::program::Program;
use super::project::Project;
use super::words::Lines;

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

fn tune(plan: &Plan, lets: &str) -> String {
    let mut text = String::from("[tune]\n");
    let has = |form: Form| plan.kernels.iter().any(|kernel| kernel.form() == form);
    let pointwise = has(Form::Pointwise);
    if pointwise {
        text += "# More do not fit into the registers.\nconstraints = [\"block * unroll <= 4096\"]\n";
    }
    if pointwise || has(Form::Row) {
        text += "\n# Bytes of one access to the widest tensor.\n[tune.bytes]\nvalues = [4, 8, 16]\ndefault = 16\n";
    }
    if pointwise {
        text += "\n[tune.block]\nvalues = [64, 128, 256, 512, 1024]\ndefault = 256\n";
        text += "\n# Vectors of results that a thread makes.\n[tune.unroll]\nvalues = [1, 2, 4, 8]\ndefault = 2\n";
    }
    if has(Form::Row) {
        text += "\n# Threads of a row that has a block.\n[tune.threads]\nvalues = [128, 256, 512, 1024]\ndefault = 256\n";
        text += "\n# Elements of the longest row that a warp has.\n[tune.narrow]\nvalues = [128, 512, 1024, 2048]\ndefault = 1024\n";
    }
    if has(Form::Column) {
        text += "\n# Threads of a block of 32 columns.\n[tune.column_threads]\nvalues = [128, 256, 512, 1024]\ndefault = 256\n";
    }
    if lets.contains("spread") {
        text += "\n# Results of many elements are divided among blocks where there are fewer blocks than this.\n[tune.spread]\nvalues = [0, 132, 264, 528, 1056]\ndefault = 528\n";
    }
    if text == "[tune]\n" { String::new() } else { text }
}

impl Writer<'_> {
    fn write(&self, lines: &mut Lines, launches: &mut Launches) {
        lines.add(
            0,
            format!("// {}.", super::table::summary(self.words.program, self.words.plan, self.kernel())),
        );
        match self.kernel().form() {
            Form::Pointwise => self.pointwise(lines, launches),
            Form::Row | Form::Column => self.reduction(lines, launches),
            Form::Scan => self.scan(lines, launches),
        }
    }
}
