//! Files of settings: what they say, and what is refused.
//!
//! Owns: an example. Never: touches a file.

use kernel_plan::diagnostic::SourceFile;
use kernel_plan::spec::op::{Device, Purpose};

use super::*;
use crate::agent::rules::Rule;
use crate::agent::spread::SpreadRule;
use crate::base::causes::chain;

fn op() -> OpSpec {
    let text = include_str!("../../../examples/rms-norm-device/op.toml");
    kernel_plan::spec::parse_op(SourceFile::new("op.toml", text)).0.unwrap()
}

fn setting(op: &OpSpec, workload: &str, axes: [u64; 2], block: i64) -> Setting {
    let mut tuning = op.tune.default_tuning();
    tuning.insert("block".parse().unwrap(), Value::Integer(block));
    let names = ["rows", "hidden"].map(str::to_owned);
    Setting {
        workload: workload.to_owned(),
        date: "2026-11-22".to_owned(),
        driver: "580.1".to_owned(),
        compiler: "nvrtc 13.0".to_owned(),
        protocol: 1,
        judged: 100,
        right: 90,
        seconds: 1.9e-5,
        default_seconds: Some(2e-5),
        copy_fraction: Some(0.96),
        gain: Some(Gain { ratio: 1.05, low: 1.04, high: 1.06 }),
        dtypes: BTreeMap::from([("T".to_owned(), "bf16".to_owned())]),
        axes: names.into_iter().zip(axes).collect(),
        range: BTreeMap::new(),
        tuning: written(&tuning),
    }
}

fn table(op: &OpSpec) -> TunedTable {
    let mut table = TunedTable::empty(op, "NVIDIA H200", (9, 0), 132, Digest::blake3(b"source"));
    table.put(setting(op, "llm-4096x4096", [4096, 4096], 512));
    table.put(setting(op, "llm-1024x4096", [1024, 4096], 128));
    table
}

fn case(op: &OpSpec, name: &str, axes: [u64; 2]) -> Case {
    let cases = op.cases(Purpose::Bench, Device::Cuda);
    let mut case = cases.iter().find(|case| case.id.starts_with(name)).unwrap().clone();
    for (axis, length) in ["rows", "hidden"].into_iter().zip(axes) {
        case.axes.insert(axis.parse().unwrap(), length);
    }
    case
}

fn block(settings: &Settings, op: &OpSpec, axes: [u64; 2]) -> (String, String) {
    let chosen = settings.choose(op, &case(op, "llm-4096x4096", axes));
    (chosen.tuning[&"block".parse().unwrap()].to_string(), chosen.from)
}

#[test]
fn a_file_reads_back_and_its_order_is_stable() {
    let op = op();
    let table = table(&op);
    assert_eq!(TunedTable::read("tuned/x.toml", &table.text()).unwrap(), table);
    table.check("tuned/x.toml", &op).unwrap();
    let names: Vec<&str> = table.settings.iter().map(|one| one.workload.as_str()).collect();
    assert_eq!(names, ["llm-1024x4096", "llm-4096x4096"]);
    assert!(is_settings(&table.text()));
    assert!(!is_settings("format = 1\n") && !is_settings("kind = ["));
    assert_eq!(file_name("NVIDIA H200"), "nvidia-h200.toml");
    let mut again = table.clone();
    again.put(setting(&op, "llm-1024x4096", [1024, 4096], 128));
    assert_eq!(again, table);
}

#[test]
fn a_call_gets_the_nearest_setting_within_reach() {
    let op = op();
    let settings = Settings::of_table("tuned/x.toml", table(&op), &op).unwrap();
    let at = |rows, hidden| block(&settings, &op, [rows, hidden]).0;
    assert_eq!((at(1024, 4096), at(2047, 4096)), ("128".to_owned(), "128".to_owned()));
    assert_eq!((at(4096, 4096), at(2049, 8192)), ("512".to_owned(), "512".to_owned()));
    // On the border, and too far away: the defaults.
    assert_eq!(
        (at(2048, 4096), at(9000, 4096), at(511, 4096)),
        ("256".to_owned(), "256".to_owned(), "256".to_owned())
    );
    assert_eq!(block(&settings, &op, [1024, 4096]).1, "tuned/x.toml, llm-1024x4096");
    assert_eq!(block(&settings, &op, [1, 1]).1, "the defaults of [tune]");
    assert_eq!(block(&Settings::defaults(&op), &op, [1024, 4096]).0, "256");
    // Another dtype was not measured.
    let other = case(&op, "llm-128x4096/T=f32", [1024, 4096]);
    assert_eq!(settings.choose(&op, &other).from, "the defaults of [tune]");
}

/// Rules for two dtypes: rows of a multiple of 8 elements up to 6000 have 128 threads, others up to 16384 have 64.
fn spread(op: &OpSpec) -> Spread {
    let rule = |most: u64, multiple: u64, block: i64| {
        let mut tuning = op.tune.default_tuning();
        tuning.insert("block".parse().unwrap(), Value::Integer(block));
        let ranges = vec![[64, most], [1, 8192]];
        let rule = Rule { ranges, multiples: vec![multiple, 1], setting: 1, samples: 7 };
        SpreadRule::new(&rule, &["hidden".to_owned(), "rows".to_owned()], written(&tuning))
    };
    Spread {
        seed: 3,
        date: "2026-11-26".to_owned(),
        driver: "580.1".to_owned(),
        compiler: "nvrtc 13.0".to_owned(),
        protocol: 1,
        searched: 14,
        unseen: 7,
        over_defaults: Gain { ratio: 1.05, low: 1.04, high: 1.06 },
        of_best: 0.98,
        worst: 0.91,
        dtypes: ["bf16", "f16"].map(|dtype| BTreeMap::from([("T".to_owned(), dtype.to_owned())])).to_vec(),
        rules: vec![rule(6000, 8, 128), rule(16384, 1, 64)],
    }
}

#[test]
fn rules_decide_about_lengths_that_no_workload_has() {
    let op = op();
    let mut table = table(&op);
    table.put_spread(spread(&op));
    table.put_spread(spread(&op));
    assert_eq!(TunedTable::read("tuned/x.toml", &table.text()).unwrap(), table, "{}", table.text());
    let settings = Settings::of_table("tuned/x.toml", table.clone(), &op).unwrap();
    let at = |rows, hidden| block(&settings, &op, [rows, hidden]);
    // Exactly a workload's lengths; then rules in their order; then, in the range of a workload, but of no rule.
    assert_eq!(at(4096, 4096), ("512".to_owned(), "tuned/x.toml, llm-4096x4096".to_owned()));
    assert_eq!(at(4096, 4104), ("128".to_owned(), "tuned/x.toml, lengths drawn with seed 3".to_owned()));
    assert_eq!((at(4096, 4097).0, at(4096, 6008).0), ("64".to_owned(), "64".to_owned()));
    assert_eq!((at(8192, 4096).0, at(8193, 4096).0), ("128".to_owned(), "256".to_owned()));
    let words = settings.words();
    assert!(words.len() == 4 && words[2].contains("{\"hidden\": 8}"), "{words:?}");
    // Each dtype leaves on its own.
    table.remove_spread(&[BTreeMap::from([("T".to_owned(), "f16".to_owned())])]);
    assert_eq!(table.spreads[0].dtypes.len(), 1);
    table.remove_spread(&table.spreads[0].dtypes.clone());
    assert!(table.spreads.is_empty());
    // A person's rule.
    let mut wrong = spread(&op);
    wrong.rules[0].multiple_of = BTreeMap::from([("hidden".to_owned(), 0)]);
    table.put_spread(wrong);
    let error = TunedTable::read("tuned/x.toml", &table.text()).unwrap_err();
    assert!(chain(&error).contains("`multiple-of` that is 0"), "{}", chain(&error));
}

#[test]
fn a_setting_that_a_constraint_forbids_there_is_not_used() {
    let text = include_str!("../../../examples/rms-norm-device/op.toml")
        .replace("[tune.block]", "[tune]\nconstraints = [\"rows < 3000 or block < 512\"]\n\n[tune.block]");
    let (op, problems) = kernel_plan::spec::parse_op(SourceFile::new("op.toml", text));
    assert!(problems.is_empty(), "{problems:?}");
    let op = op.unwrap();
    let settings = Settings::of_table("tuned/x.toml", table(&op), &op).unwrap();
    assert_eq!(block(&settings, &op, [2500, 4096]).0, "512");
    assert_eq!(block(&settings, &op, [4096, 4096]).0, "256");
}

#[test]
fn what_a_person_changed_is_refused() {
    let op = op();
    let text = table(&op).text();
    for (from, to, why) in [
        ("format = 1", "format = 2", "format 2"),
        ("format = 1", "format = 1\nextra = 2", "extra"),
        ("2047", "2048", "ranges do not follow"),
        ("kind = \"settings\"", "kind = \"table\"", "kind"),
    ] {
        assert!(text.contains(from), "{from}\n{text}");
        let error = TunedTable::read("tuned/x.toml", &text.replacen(from, to, 1)).unwrap_err();
        let text = chain(&error);
        assert!(text.contains(why), "{text}");
    }
    for (from, to, why) in [
        ("block = 128", "blocks = 128", "`blocks`, which is not a tunable"),
        ("block = 128", "block = 100", "block = 100, which is not one of the values"),
        ("block = 128", "block = \"128\"", "not one of the values"),
        ("block = 128\n", "", "no value for `block`"),
    ] {
        assert!(text.contains(from), "{from}\n{text}");
        let read = TunedTable::read("tuned/x.toml", &text.replacen(from, to, 1)).unwrap();
        let error = Settings::of_table("tuned/x.toml", read, &op).unwrap_err();
        let text = chain(&error);
        assert!(text.contains(why), "{text}");
        assert!(error.to_string().contains("tuned/x.toml"), "{error}");
    }
}

#[test]
fn another_device_of_the_same_capability_is_the_next_best() {
    let op = op();
    let of = |device: &str, capability, count| TunedTable {
        ..TunedTable::empty(&op, device, capability, count, Digest::blake3(b"source"))
    };
    let tables =
        [of("NVIDIA A100", (8, 0), 108), of("NVIDIA H100", (9, 0), 114), of("NVIDIA H200", (9, 0), 132)];
    let found = |device: &str, capability, count| nearest(&tables, device, capability, count);
    assert_eq!(found("NVIDIA H100", (9, 0), 114), Some(1));
    assert_eq!(found("NVIDIA GH200", (9, 0), 130), Some(2));
    assert_eq!(found("NVIDIA L40", (8, 9), 142), None);
}

#[test]
fn the_digest_knows_the_table() {
    let op = op();
    assert!(Settings::defaults(&op).words().is_empty());
    let words = Settings::of_table("tuned/x.toml", table(&op), &op).unwrap().words();
    assert_eq!(words.len(), 2);
    assert!(words[0].contains("block=128"), "{words:?}");
}
