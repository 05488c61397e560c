//! `[let]` and `when` of op.toml: names for expressions, and where a tunable matters.

use kernel_plan::diagnostic::SourceFile;
use kernel_plan::spec::expr::{Bindings, Value};
use kernel_plan::spec::op::{Case, Device, Purpose};
use kernel_plan::spec::tune::{Count, Tuning};
use kernel_plan::spec::{self, OpSpec};
use proptest::prelude::*;

use crate::project::render;

const RESIDUAL_NORM: &str = include_str!("../spec/ok/residual_norm.toml");

/// The operation with another `[tune]`, one kernel of `[launch]` and, before both, more text.
fn with(before: &str, tune: &str, kernel: &str) -> String {
    let head = &RESIDUAL_NORM[..RESIDUAL_NORM.find("[tune]").expect("the section")];
    let tail = &RESIDUAL_NORM[RESIDUAL_NORM.find("[workload.small]").expect("the section")..];
    let launch =
        "[launch]\nsource = \"norm.cu\"\n[[launch.kernel]]\nentry = \"norm\"\nargs = [\"out\", \"input\"]\n";
    format!("{head}{before}\n{tune}\n{launch}{kernel}\n{tail}")
}

/// A spec that has no problem.
#[track_caller]
fn good(text: &str) -> OpSpec {
    let (op, problems) = spec::parse_op(SourceFile::new("op.toml", text));
    assert_eq!(render(&problems), "");
    op.expect("a spec")
}

fn cases(op: &OpSpec) -> Vec<Case> {
    op.cases(Purpose::Verify, Device::Cuda)
}

const TUNE: &str = "[tune.block]\nvalues = [128, 256]\ndefault = 256\n\
                    [tune.vector]\nvalues = [1, 2, 4]\ndefault = 4\n\
                    [tune.twice]\nvalues = [true, false]\ndefault = false\n";

/// `[let]` in any order, and what it stands for written out.
fn named_and_written_out() -> (OpSpec, OpSpec) {
    let lets = "[let]\nheld = \"row_bytes <= 4096 and not twice\"\nrow_bytes = \"hidden * sizeof(T)\"\n\
                less = \"hidden - 1\"\nhalf = \"(row_bytes + 2) / 2\"\n";
    let named = with(
        lets,
        TUNE,
        "grid = [\"half * 2\", \"rows - less * 0\"]\nblock = [\"block / vector\"]\nwhen = \"not held or half < 9\"",
    );
    let bytes = "hidden * sizeof(T)";
    let half = format!("({bytes} + 2) / 2");
    let written = with(
        "",
        TUNE,
        &format!(
            "grid = [\"{half} * 2\", \"rows - (hidden - 1) * 0\"]\nblock = [\"block / vector\"]\n\
             when = \"not ({bytes} <= 4096 and not twice) or {half} < 9\""
        ),
    );
    (good(&named), good(&written))
}

#[test]
fn a_name_stands_for_its_expression() {
    let (named, written) = named_and_written_out();
    let order: Vec<_> = named.definitions.iter().map(|found| found.name.as_str()).collect();
    assert_eq!(order, ["row_bytes", "held", "less", "half"], "each after what it uses");
    for case in cases(&named) {
        for twice in [false, true] {
            let mut tuning = named.tune.default_tuning();
            tuning.insert("twice".parse().expect("a name"), Value::Boolean(twice));
            let start = |op: &OpSpec| op.launch.as_ref().expect("[launch]").evaluate(&case, &tuning);
            assert_eq!(start(&named), start(&written), "{} {twice}", case.id);
        }
    }
}

#[test]
fn what_is_serialized_has_the_expressions_and_what_is_read_has_the_names() {
    let (named, written) = named_and_written_out();
    let json = |op: &OpSpec| serde_json::to_string(op).expect("JSON");
    assert_eq!(json(&named), json(&written), "so that a digest is of what is started, whatever it is called");
    let kernel = &named.launch.as_ref().expect("[launch]").kernels[0];
    assert_eq!(kernel.when.as_ref().map(ToString::to_string).as_deref(), Some("not held or half < 9"));
}

#[test]
fn an_error_names_the_expression_that_it_came_through() {
    let lets = "[let]\npieces = \"hidden / (vector - 4)\"\nparts = \"pieces + 1\"\n";
    let text = with(lets, TUNE, "grid = [\"rows\"]\nblock = [\"block\"]\nwhen = \"twice and parts > 1\"");
    let op = good(&text);
    let mut tuning = op.tune.default_tuning();
    tuning.insert("twice".parse().expect("a name"), Value::Boolean(true));
    let error =
        op.launch.as_ref().expect("[launch]").evaluate(&cases(&op)[0], &tuning).expect_err("no value");
    assert_eq!(
        error.to_string(),
        "`hidden / (vector - 4)` divides by zero, in `pieces` of [let], which `parts` uses"
    );
    assert_eq!(&text[error.span()], "hidden / (vector - 4)");
}

#[test]
fn a_tunable_keeps_its_default_where_it_does_not_matter() {
    let tune = TUNE.replace("default = 4\n", "default = 4\nwhen = \"twice\"\n");
    let op = good(&with("", &tune, "grid = [\"rows\"]\nblock = [\"block / vector\"]\nwhen = \"twice\""));
    let printed: Vec<_> = op.tune.conditions().iter().map(ToString::to_string).collect();
    assert_eq!(printed, ["twice or vector == 4"]);
    // Two blocks, and three vectors with `twice` or one without.
    assert_eq!(op.tune.count(&Bindings::default(), 1000, 1000), Count::Exactly(2 * (3 + 1)));
}

#[test]
fn a_name_of_let_is_for_tune_and_launch() {
    for (from, to, what) in [
        ("length = \"hidden * heads\"", "length = \"wide\"", "spec::unknown_axis"),
        ("\n[axes]", "\nconstraints = [\"wide > 0\"]\n[axes]", "spec::expression_name"),
    ] {
        let text = with(
            "[let]\nwide = \"hidden * 2\"\n",
            TUNE,
            "grid = [\"rows * wide * 0\"]\nblock = [\"block / vector\"]",
        );
        let text = text.replacen(from, to, 1);
        let (_, problems) = spec::parse_op(SourceFile::new("op.toml", text.as_str()));
        let found = problems.iter().find(|problem| problem.code == what);
        let help = found.and_then(|problem| problem.help.as_deref());
        assert_eq!(
            help,
            Some("names of [let] can be used only in [tune] and [launch]; write the expression out here"),
            "{to}"
        );
    }
}

proptest! {
    /// `when` with a condition is the constraint that it holds or that the tunable has its default.
    #[test]
    fn a_condition_of_a_tunable_is_a_constraint(
        conditions in prop::collection::vec(
            prop::sample::select(&["a < b", "hidden % 8 == 0", "b * c == 2", "flag", "not flag and a > 0", "c / d == 1", "given(bias)"][..]),
            4,
        ),
        place in 0usize..4,
    ) {
        let tunable = |name: &str, when: &str| {
            let default = if name == "b" { -2 } else { 1 };
            format!("[tune.{name}]\nvalues = [-2, 0, 1]\ndefault = {default}\n{when}")
        };
        let flag = |when: &str| format!("[tune.flag]\nvalues = [true, false]\ndefault = {}\n{when}", place % 2 == 0);
        let names = ["a", "b", "c", "d"];
        let whens = names.iter().zip(&conditions).map(|(name, condition)| tunable(name, &format!("when = \"{condition}\"\n")));
        let whens = whens.collect::<String>() + &flag(&format!("when = \"{}\"\n", conditions[place]));
        let or = |name: &&str, condition: &str| format!("{condition} or {name} == {}", if **name == *"b" { -2 } else { 1 });
        let constraints = names.iter().zip(&conditions).map(|(name, condition)| or(name, condition));
        let flag_default = if place % 2 == 0 { "flag" } else { "not flag" };
        let constraints: Vec<String> = constraints.chain([format!("{} or {flag_default}", conditions[place])]).collect();
        let plain = format!("[tune]\nconstraints = {constraints:?}\n") + &names.map(|name| tunable(name, "")).concat() + &flag("");
        let kernel = "grid = [\"rows * (a + b + c + d) * 0\"]\nblock = [1]\nwhen = \"flag\"";
        let read = |tune: &str| spec::parse_op(SourceFile::new("op.toml", with("", tune, kernel))).0.expect("a spec");
        let (one, other) = (read(&whens), read(&plain));
        let printed = |op: &OpSpec| op.tune.conditions().iter().map(ToString::to_string).collect::<Vec<_>>();
        prop_assert_eq!(printed(&one), printed(&other));
        let case = &cases(&one)[0];
        for setting in 0..3usize.pow(4) * 2 {
            let values = [-2, 0, 1];
            let digits = names.iter().zip(0u32..).map(|(name, digit)| {
                (name.parse().expect("a name"), Value::Integer(values[setting / 2 / 3usize.pow(digit) % 3]))
            });
            let tuning: Tuning = digits.chain([("flag".parse().expect("a name"), Value::Boolean(setting % 2 == 0))]).collect();
            let bindings = Bindings::new(case, &tuning);
            let (with_when, with_constraints) = (one.tune.admits(&bindings), other.tune.admits(&bindings));
            prop_assert_eq!(with_when.as_ref().ok(), with_constraints.as_ref().ok(), "{:?}", tuning);
        }
    }
}
