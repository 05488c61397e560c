//! harness/trace.py on what people write: tests/tracing, function by function.
//!
//! They need a Python with torch: `KERNELWRIGHT_PYTHON`, else `python3`, with the packages of the folder that
//! `KERNELWRIGHT_SITE` names, if it does; without torch each says so and passes.

use std::path::Path;
use std::time::Duration;

use kernel_plan::plan::CommandLine;

use crate::base::process::{self, Limits};
use crate::base::{env, files};
use crate::pipeline::create::tracing::{job, step};
use crate::protocol::Opening;
use crate::scaffold::fit::{self, Fit};
use crate::scaffold::report::Report;
use crate::scaffold::serves::{self, Served};
use crate::scaffold::template;
use crate::scaffold::unusable::Kind;

const SITE: &str = "KERNELWRIGHT_SITE";

/// The interpreter; nothing where it has no torch.
#[expect(clippy::disallowed_macros, reason = "a test that skips says why")]
fn python() -> Option<CommandLine> {
    let program = env::text("KERNELWRIGHT_PYTHON").unwrap_or_else(|| "python3".to_owned());
    let site = env::text(SITE);
    let with = |line: CommandLine| match &site {
        Some(site) => line.env(SITE, site.as_str()),
        None => line,
    };
    let look = format!("import os, site; site.addsitedir(os.environ.get('{SITE}', '')); import torch");
    let asked = with(CommandLine::new(&program).args(["-c", &look]));
    let found = process::run(&asked, Limits::wall(Duration::from_secs(100))).ok()?.ending.success();
    if !found {
        assert!(site.is_none(), "{program} finds no torch in the folder of {SITE}");
        eprintln!("skipped: {program} has no torch");
    }
    found.then(|| with(CommandLine::new(&program)))
}

fn served() -> Vec<Served> {
    let traced = template::all().unwrap().into_iter().filter(|template| template.traced);
    traced.map(|template| serves::served(template).unwrap()).collect()
}

/// What the harness says of these names of a file, in one process.
fn reports(path: &Path, names: &[&str], served: &[Served]) -> Option<Vec<Report>> {
    let line = python()?;
    let folder = files::scratch().unwrap();
    let names: Vec<Option<&str>> = names.iter().copied().map(Some).collect();
    let job = job(folder.path(), path, &names, served).unwrap();
    let line = line.path(&folder.path().join("trace.py"));
    let mut reports = Vec::new();
    let input = Opening::line("", job);
    let ended =
        process::converse(&line, Limits::wall(Duration::from_secs(600)), input.as_bytes(), &mut |line| {
            if step(line).is_none() {
                reports.push(serde_json::from_str::<Report>(line).unwrap());
            }
        });
    let ended = ended.unwrap();
    assert!(ended.ending.success() && reports.len() == names.len(), "{}", ended.stderr_text());
    Some(reports)
}

/// Holds functions of a file of tests/tracing against the template that serves each, or a part of the refusal.
#[track_caller]
fn check(file: &str, wanted: &[(&str, Result<&str, &str>)]) {
    check_among(&served(), file, wanted);
}

/// The same with some of the templates, which takes less time.
#[track_caller]
fn check_some(names: &[&str], file: &str, wanted: &[(&str, Result<&str, &str>)]) -> Option<Vec<Fit>> {
    let mut some = served();
    some.retain(|served| names.contains(&served.template.name.as_str()));
    assert_eq!(some.len(), names.len());
    check_among(&some, file, wanted)
}

/// The matches of those that are served; nothing without torch.
#[track_caller]
fn check_among(served: &[Served], file: &str, wanted: &[(&str, Result<&str, &str>)]) -> Option<Vec<Fit>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/tracing").join(file);
    let names: Vec<&str> = wanted.iter().map(|(name, _)| *name).collect();
    let reports = reports(&path, &names, served)?;
    let mut fits = Vec::new();
    for (report, (name, wanted)) in reports.iter().zip(wanted) {
        match (fit::judge(report, served), wanted) {
            (Ok(fit), Ok(template)) => {
                assert_eq!(fit.template, *template, "{name}");
                fits.push(fit);
            }
            (Err(unfit), Err(why)) => assert!(unfit.why.contains(why), "{name}: {}", unfit.why),
            (got, wanted) => panic!("{name}: {got:?} instead of {wanted:?}"),
        }
    }
    Some(fits)
}

#[test]
fn norms() {
    check(
        "norms.py",
        &[
            ("llama", Ok("rms-norm")),
            ("by_sum", Ok("rms-norm")),
            ("own", Ok("rms-norm")),
            ("LlamaRMSNorm", Ok("rms-norm")),
            ("layer_without_mean", Ok("rms-norm")),
            ("FixedLayerNorm", Ok("layer-norm")),
            ("layer_by_hand", Ok("layer-norm")),
            ("layer_by_var", Ok("layer-norm")),
            ("layer_optional", Ok("layer-norm")),
        ],
    );
}

#[test]
fn norms_of_sums_and_modulated_ones() {
    let (separate, fit) = (Ok("add-rms-norm-separate"), Ok("add-rms-norm"));
    check("norms.py", &[("added", separate), ("added_in_place", fit), ("modulated", Ok("adaln"))]);
}

const NORMS: &[&str] = &["rms-norm", "layer-norm", "group-norm", "instance-norm"];

#[test]
fn norms_without_weight_or_bias() {
    let (layer, rms) = (Ok("layer-norm"), Ok("rms-norm"));
    check_some(
        NORMS,
        "norms.py",
        &[
            ("layer_no_bias", layer),
            ("layer_plain", layer),
            ("LayerNoBias", layer),
            ("LayerNotAffine", layer),
            ("rms_plain", rms),
        ],
    );
}

#[test]
fn norms_of_groups() {
    let fit = Ok("group-norm");
    check_some(
        NORMS,
        "norms.py",
        &[
            ("groups", fit),
            ("eight_groups", fit),
            ("groups_by_hand", fit),
            ("Groups", fit),
            ("FixedGroups", fit),
        ],
    );
}

#[test]
fn what_a_caller_sees_is_served() {
    let separate = Ok("add-rms-norm-separate");
    check_some(
        &["rms-norm", "layer-norm", "add-rms-norm", "add-rms-norm-separate"],
        "observed.py",
        &[
            ("unused", Ok("rms-norm")),
            ("only_mode", Ok("rms-norm")),
            ("shape_of_last", Ok("layer-norm")),
            ("kept", separate),
            ("kept_alone", separate),
            ("as_dict", separate),
            ("without_gradient", Ok("rms-norm")),
        ],
    );
}

#[test]
fn a_parameter_that_no_template_takes_is_refused() {
    check_some(
        &["rms-norm", "swiglu", "softmax"],
        "observed.py",
        &[
            ("tempered", Err("`temperature=2.0` gives another result")),
            ("gained", Err("`gain=2.0` gives another result")),
            ("shifted", Err("`shift=1` gives another result")),
            ("switched", Err("`centre=True` gives another result")),
            ("optional_bias", Err("no parameter `bias`")),
            ("by_word", Err("`activation='relu'` gives another result")),
            ("by_axis", Err("`dim=0` gives another result")),
            ("by_two", Err("no parameter `training`")),
            ("by_function", Err("`act=tanh` gives another result")),
            ("in_float", Err("no parameter `output_dtype`")),
            ("passed_on", Err("it passes `kwargs` on")),
        ],
    );
}

#[test]
fn what_a_template_writes_is_what_the_function_writes() {
    check_some(
        &["add-rms-norm"],
        "observed.py",
        &[
            ("kept", Err("the kernel overwrites `r` (its `residual`), but your function does not")),
            ("other_write", Err("it leaves a different value in `r`")),
            ("written_copy", Err("the kernel returns `r` as result 2, but your function a new tensor")),
        ],
    );
}

#[test]
fn what_a_caller_sees_besides_results_is_refused() {
    check_some(
        &["rms-norm", "softmax", "transpose"],
        "observed.py",
        &[
            ("turned", Err("result 1 is a view of `x`; the kernel returns a new tensor")),
            ("detached", Err("the gradient of `x` differs")),
            ("frozen", Err("has no gradient of `w`")),
            ("wide_result", Err("for bfloat16 its result 1 is float32")),
            ("Dropped", Err("in training mode")),
            ("Counted", Err("changes the `calls`")),
            ("Scaled", Err("the buffer `scale`")),
        ],
    );
}

#[test]
fn what_differs_in_training_is_refused() {
    check_some(
        &["rms-norm"],
        "hidden.py",
        &[
            ("MovingAverage", Err("changes the `running`")),
            ("SilentAverage", Err("changes the `seen`")),
            ("Skipped", Err("in training mode")),
            ("Shifted", Err("the buffer `shift`")),
        ],
    );
}

#[test]
fn what_differs_for_a_dtype_is_refused() {
    check_some(
        &["rms-norm", "add-rms-norm-separate"],
        "hidden.py",
        &[
            ("eps_of_half", Err("depends on the dtype")),
            ("clamped_in_half", Err("operators differ between dtypes")),
            ("clamped_in_bfloat16", Err("operators differ between dtypes")),
            ("checked_in_half", Err("operators differ between dtypes")),
            ("residual_in_float", Err("`residual_in_fp32=True` gives another result")),
            ("with_ones", Err("for bfloat16 its result 1 is float32")),
        ],
    );
}

#[test]
fn the_words_of_the_file_are_tried() {
    check_some(
        &["rms-norm", "swiglu"],
        "hidden.py",
        &[
            ("by_hyphen", Err("`mode='zero-mean'` gives another result")),
            ("by_helper", Err("`mode='centre first'` gives another result")),
            ("by_table", Err("`kind='relu squared'` gives another result")),
        ],
    );
}

#[test]
fn parameters_that_few_calls_reach_are_tried() {
    check_some(
        &["rms-norm"],
        "hidden.py",
        &[
            ("decorated", Err("`gain=2.0` gives another result")),
            ("by_settings", Err("no parameter `settings`, and the effect of other values is not known")),
            ("by_late_pair", Err("no parameter `drops`")),
            ("bounded_gradient", Err("the gradient of `x` differs")),
        ],
    );
}

#[test]
fn what_needs_another_look_is_served() {
    let served = check_some(
        &["rms-norm", "add-rms-norm", "transpose"],
        "hidden.py",
        &[
            ("residual_first", Ok("add-rms-norm")),
            ("not_in_half", Ok("rms-norm")),
            ("unread_settings", Ok("rms-norm")),
            ("turned_copy", Ok("transpose")),
        ],
    );
    let Some([_, half, unread, turned]) = served.as_deref() else { return };
    let has = |fit: &Fit, note: &str| {
        assert!(fit.notes.iter().any(|told| told.contains(note)), "{:?}", fit.notes);
    };
    has(half, "for float16 your function fails, but the kernel does not: TypeError: float16 overflows here");
    has(unread, "`settings` has no effect: your function does not read it");
    has(turned, "your result 1 is not contiguous, but the kernel's is");
}

#[test]
fn what_only_looks_like_a_norm() {
    check(
        "norms.py",
        &[
            ("Gemma", Err("results differ")),
            ("eps_outside", Err("drawn `tiny` results differ")),
            ("eps_of_the_dtype", Err("depends on the dtype")),
            ("unbiased", Err("results differ")),
            ("rounded", Err("a cast to a narrower dtype")),
            ("clamped", Err("`clamp`")),
        ],
    );
}

#[test]
fn what_only_looks_like_a_norm_at_a_first_glance() {
    check(
        "norms.py",
        &[
            ("no_mean_but_a_bias", Err("results differ")),
            ("writes", Err("it writes into `x`")),
            ("over_columns", Err("results differ")),
            ("only_short", Err("operators differ between lengths")),
        ],
    );
}

#[test]
fn rows() {
    check(
        "rows.py",
        &[
            ("soft", Ok("softmax")),
            ("soft_by_hand", Ok("softmax")),
            ("soft_unsafe", Ok("softmax")),
            ("log_of_sum", Ok("log-softmax")),
            ("log_soft", Ok("log-softmax")),
            ("losses", Ok("cross-entropy")),
            ("mean_loss", Ok("cross-entropy")),
            ("gathered", Ok("cross-entropy")),
        ],
    );
}

#[test]
fn reductions() {
    check(
        "rows.py",
        &[
            ("sums", Ok("row-sum")),
            ("means", Ok("row-sum")),
            ("divided", Ok("row-sum")),
            ("largest", Ok("row-max")),
            ("values", Ok("row-max")),
        ],
    );
}

#[test]
fn what_only_looks_like_rows() {
    check(
        "rows.py",
        &[
            ("over_columns", Err("results differ")),
            ("clamped", Err("`clamp`")),
            ("cleaned", Err("but the template's reference does not")),
            ("tempered", Err("results differ")),
            ("smoothed", Err("results differ")),
            ("total", Err("shape")),
            ("smallest", Err("no template has these operators")),
            ("product", Err("")),
        ],
    );
}

#[test]
fn gates_and_rotations() {
    check(
        "gates.py",
        &[
            ("chunks", Ok("swiglu")),
            ("sigmoids", Ok("swiglu")),
            ("two_tensors", Ok("swiglu")),
            ("gates_last", Ok("mul-and-silu")),
            ("gates_last_by_slices", Ok("mul-and-silu")),
            ("DiffusersSwiGLU", Ok("mul-and-silu")),
            ("gelu_tanh", Ok("geglu")),
            ("gelu_erf", Ok("geglu")),
            ("gelu_by_hand", Ok("geglu")),
            ("transformers", Ok("rope")),
            ("one", Ok("rope")),
            ("two", Ok("rope")),
        ],
    );
}

#[test]
fn what_only_looks_like_a_gate() {
    let differs = Err("results differ");
    check(
        "gates.py",
        &[("quick", differs), ("relu", differs), ("backwards", differs), ("silu_alone", Err(""))],
    );
}

#[test]
fn what_cannot_be_traced_is_said() {
    let folder = files::scratch().unwrap();
    let path = folder.path().join("mine.py");
    let file = "import torch\nprint('hello')\n\n\
                class Two(torch.nn.Module):\n    def __init__(self, rows, columns):\n        super().__init__()\n\n\
                def branching(x):\n    return x * 2 if x.sum() > 0 else x\n";
    files::write(&path, file).unwrap();
    let Some(reports) = reports(&path, &["Two", "branching", "nothing"], &served()) else { return };
    let said = &reports[0].unusable.as_ref().unwrap().reason;
    assert!(said.contains("`rows`, `columns`") && said.contains("example_module()"), "{said}");
    assert!(reports[1].unusable.is_none() && reports[1].graph.is_none());
    assert!(reports[1].error.is_some(), "{:?}", reports[1].error);
    let unusable = reports[2].unusable.as_ref().unwrap();
    assert_eq!(unusable.kind, Kind::Unknown);
    assert_eq!(unusable.names, [("Two".to_owned(), 4), ("branching".to_owned(), 8)]);
}

#[test]
fn examples_of_the_file_are_used() {
    let folder = files::scratch().unwrap();
    let path = folder.path().join("mine.py");
    let file = "import torch\nimport torch.nn.functional as F\n\n\
                def example_inputs():\n    return torch.randn(2, 3, 48), (48,), torch.ones(48)\n\n\
                def norm(x, shape, w):\n    return F.rms_norm(x, shape, w, 1e-6)\n";
    files::write(&path, file).unwrap();
    let served = served();
    let Some(reports) = reports(&path, &["norm"], &served) else { return };
    let fit = fit::judge(&reports[0], &served).unwrap();
    assert_eq!(fit.template, "rms-norm");
    assert!(fit.notes.iter().any(|note| note.contains("two leading axes")), "{:?}", fit.notes);
}

#[test]
fn a_value_of_the_example_stays_as_it_is() {
    let folder = files::scratch().unwrap();
    let path = folder.path().join("mine.py");
    let file = "import torch\nimport torch.nn.functional as F\n\n\
                def example_inputs():\n    return torch.randn(6, 48), torch.ones(48), 0.0\n\n\
                def norm(x, w, amount, drops=False):\n    \
                return F.rms_norm(F.dropout(x, amount, drops), (x.shape[-1],), w, 1e-6)\n";
    files::write(&path, file).unwrap();
    let served = served();
    let Some(reports) = reports(&path, &["norm"], &served) else { return };
    let fit = fit::judge(&reports[0], &served).unwrap();
    assert_eq!(fit.template, "rms-norm");
}
