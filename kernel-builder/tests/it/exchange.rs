//! `import` and `export`: files written and never overwritten, and what flashinfer-bench and Python say to them.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::old_records::old_record;
use super::sandbox::{Ended, Sandbox, finish, tree};

fn definitions() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("kernel-plan/tests/exchange")
}

/// The arguments that import one of the definitions beside the tests of kernel-plan.
fn import(sandbox: &Sandbox, name: &str, to: &str) -> Ended {
    let path = |ending: &str| definitions().join(format!("{name}.{ending}")).display().to_string();
    sandbox.run(&["import", &path("json"), "--workloads", &path("jsonl"), "--to", to])
}

#[test]
fn a_definition_becomes_files_that_are_never_overwritten() {
    let sandbox = Sandbox::new();
    let made = import(&sandbox, "moe_routing_e256_topk8", "moe");
    assert_eq!(
        (made.code, made.stdout.as_str()),
        (0, "moe_routing_e256_topk8 with 2 workloads: op.toml and reference.py in moe\n"),
        "{}",
        made.stderr
    );
    assert!(made.stderr.contains("note: sums are kept in f32"), "{}", made.stderr);
    assert_eq!(tree(&sandbox.work()), ["moe/op.toml", "moe/reference.py"]);
    sandbox.write("work/moe/op.toml", "mine");
    import(&sandbox, "rmsnorm_h4096", "moe").refused(12, &["scaffold::would_overwrite", "op.toml"]);
    assert_eq!(sandbox.read("work/moe/op.toml"), "mine");
    // Without a folder, one of the operation's name.
    let definition = definitions().join("masked-softmax.v2.json").display().to_string();
    assert_eq!(sandbox.run(&["import", &definition]).code, 0);
    assert!(sandbox.read("work/masked_softmax_v2/op.toml").contains("name = \"masked-softmax.v2\""));
}

#[test]
fn an_import_tells_programs_what_it_assumed() {
    let sandbox = Sandbox::new();
    let definition = definitions().join("gemm_n4096_k2048.json").display().to_string();
    let made = sandbox.run(&["import", &definition, "--to", "gemm", "--message-format", "json"]);
    let result = made.event("result");
    assert_eq!((&result["name"], &result["workloads"]), (&"gemm_n4096_k2048".into(), &0.into()));
    let codes: Vec<_> =
        result["problems"].as_array().expect("a list").iter().map(|row| &row["code"]).collect();
    assert!(!codes.is_empty() && codes.iter().all(|code| *code == "exchange::assumed"), "{codes:?}");
    assert!(made.stderr.is_empty(), "{}", made.stderr);
}

#[test]
fn a_wrong_definition_writes_nothing() {
    let sandbox = Sandbox::new();
    sandbox.write("work/d.json", "{ \"name\": \"x\", \"axes\": { \"M\": { \"type\": \"vary\" } } }");
    sandbox
        .run(&["import", "d.json"])
        .refused(10, &["exchange::missing_key", "exchange::bad_value", "d.json:1:"]);
    assert_eq!(tree(&sandbox.work()), ["d.json"]);
    sandbox.run(&["import", "gone.json"]).refused(1, &["base::file", "gone.json"]);
}

#[test]
fn an_operation_becomes_a_part_of_a_data_set() {
    let sandbox = Sandbox::new();
    sandbox.project("fast-norm", "cpu");
    let made = sandbox.run(&["export", "fast-norm", "--to", "set", "--message-format", "json"]);
    assert_eq!(made.code, 0, "{}", made.stdout);
    let result = made.event("result");
    let names: Vec<_> =
        result["definitions"].as_array().expect("a list").iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["rms_norm_bf16", "rms_norm_f16", "rms_norm_f32"]);
    let wanted = |kind: &str, ending: &str| {
        let path = move |dtype: &str| format!("{kind}/rms_norm/rms_norm_{dtype}.{ending}");
        ["bf16", "f16", "f32"].map(path).to_vec()
    };
    let files = tree(&sandbox.path("work/set"));
    assert_eq!(files, [wanted("definitions", "json"), wanted("workloads", "jsonl")].concat());
    sandbox.run(&["export", "fast-norm", "--to", "set"]).refused(12, &["scaffold::would_overwrite"]);
    let one = sandbox.run(&["export", "fast-norm", "--to", "one", "--dtype", "T=f16"]);
    assert_eq!((one.code, one.stdout.lines().count()), (0, 1), "{}", one.stderr);
    sandbox
        .run(&["export", "fast-norm", "--to", "x", "--dtype", "T=i8"])
        .refused(10, &["T=bf16, T=f16, T=f32"]);
    sandbox.run(&["export", "fast-norm", "--to", "x", "--dtype", "T"]).refused(2, &["T=bf16"]);
    sandbox.run(&["export", "--to", "x"]).refused(10, &["spec::no_op"]);
}

/// A Python, and why there is none to run this test with.
fn python(probe: &str) -> Option<PathBuf> {
    let named = std::env::var_os("KERNELWRIGHT_PYTHON").map(PathBuf::from);
    let candidates = named.into_iter().chain([PathBuf::from("python3")]);
    candidates.into_iter().find(|python| {
        let output = Command::new(python).args(["-c", probe]).output();
        output.is_ok_and(|output| output.status.success())
    })
}

/// flashinfer-bench's models without the packages that they do not need: torch, safetensors.
const MODELS: &str = "import importlib.util, sys, types\n\
    home = importlib.util.find_spec('flashinfer_bench').submodule_search_locations[0]\n\
    for name, folder in (('flashinfer_bench', home), ('flashinfer_bench.data', home + '/data')):\n\
    \x20   module = types.ModuleType(name)\n\
    \x20   module.__path__ = [folder]\n\
    \x20   sys.modules[name] = module\n\
    from flashinfer_bench.data.definition import Definition\n\
    from flashinfer_bench.data.trace import Trace\n";

#[test]
fn flashinfer_bench_accepts_what_is_exported() {
    const JUDGE: &str = "import pathlib, json\n\
        root = pathlib.Path(sys.argv[1])\n\
        count = 0\n\
        for path in sorted(root.rglob('*.json')):\n\
        \x20   text = path.read_text()\n\
        \x20   definition = Definition.model_validate_json(text)\n\
        \x20   again = json.loads(definition.model_dump_json(exclude_unset=True))\n\
        \x20   wanted = json.loads(text)\n\
        \x20   for tensor in wanted['inputs'].values():\n\
        \x20       tensor.pop('optional', None)  # passed over by 0.1.2\n\
        \x20   assert again == wanted, path\n\
        \x20   assert path == root / 'definitions' / definition.op_type / f'{definition.name}.json', path\n\
        \x20   lines = root / 'workloads' / definition.op_type / f'{definition.name}.jsonl'\n\
        \x20   for line in lines.read_text().splitlines():\n\
        \x20       trace = Trace.model_validate_json(line)\n\
        \x20       assert trace.is_workload_trace() and trace.definition == definition.name, line\n\
        \x20       assert json.loads(trace.model_dump_json()) == json.loads(line), line\n\
        \x20       definition.get_input_shapes(trace.workload.axes)\n\
        \x20       assert set(trace.workload.inputs) == set(definition.inputs), line\n\
        \x20   count += 1\n\
        print(count)\n";
    let Some(python) = python(MODELS) else {
        eprintln!(
            "skipped: no Python imports the models of `flashinfer-bench`; set KERNELWRIGHT_PYTHON to one that does"
        );
        return;
    };
    let sandbox = Sandbox::new();
    sandbox.project("fast-norm", "cpu");
    assert_eq!(sandbox.run(&["export", "fast-norm", "--to", "set"]).code, 0);
    let mut wanted = 3;
    for path in tree(&definitions()).iter().filter_map(|path| path.strip_suffix(".json")) {
        assert_eq!(import(&sandbox, path, path).code, 0, "{path}");
        let made = sandbox.run(&["export", path, "--to", "set"]);
        assert_eq!(made.code, 0, "{path}: {}", made.stderr);
        wanted += 1;
    }
    let judge = |set: &str| {
        let script = format!("{MODELS}{JUDGE}");
        finish(Command::new(&python).args(["-c", &script]).arg(sandbox.path(set)))
    };
    let judged = judge("work/set");
    assert_eq!((judged.code, judged.stdout.trim()), (0, wanted.to_string().as_str()), "{}", judged.stderr);
    // The judge can refuse, and so do we.
    let definition = sandbox.read("work/set/definitions/rope/rope_d128.json");
    for (from, to) in [
        ("\"half\": {", "\"other\": {\"type\": \"const\", \"value\": -1}, \"half\": {"),
        ("\"positions\",", "\"position\","),
        ("def run(", "def rope("),
        ("\"float32\"", "\"float31\""),
        ("\"q_out\": {", "\"table\": {"),
        ("\"op_type\": \"rope\"", "\"op_type\": \"\""),
    ] {
        assert!(definition.contains(from), "{from}");
        sandbox.write("work/bad/definitions/rope/rope_d128.json", &definition.replacen(from, to, 1));
        assert_ne!(judge("work/bad").code, 0, "{to}");
        let ours = sandbox.run(&["import", "bad/definitions/rope/rope_d128.json", "--to", "never"]);
        assert_eq!(ours.code, 10, "{to}: {}", ours.stderr);
    }
}

#[test]
fn records_become_traces_that_flashinfer_bench_reads() {
    let sandbox = Sandbox::new();
    sandbox.project("fast-norm", "cpu");
    let records = old_record("2026-11-21-h200-rms-norm.jsonl");
    let first = records.lines().next().expect("a line");
    let mut other: Value = serde_json::from_str(first).expect("JSON");
    other["workload"] = "gone".into();
    sandbox.write("work/records.jsonl", &format!("{first}\n{other}\n"));
    let made = sandbox.run(&["export", "fast-norm", "--to", "set", "--traces", "records.jsonl"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    assert!(made.stderr.contains("1 of 2 records do not match an exported definition"), "{}", made.stderr);
    assert!(made.stdout.contains("traces/rms_norm/rms_norm_bf16.jsonl  1 traces"), "{}", made.stdout);
    let line = sandbox.read("work/set/traces/rms_norm/rms_norm_bf16.jsonl");
    let trace: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(trace["workload"]["axes"]["hidden"], 2048);
    sandbox
        .run(&["export", "fast-norm", "--to", "x", "--traces", "0123456789"])
        .refused(20, &["archive::no_record", "0123456789"]);
    let Some(python) = python(MODELS) else {
        eprintln!("skipped: no Python imports the models of `flashinfer-bench`");
        return;
    };
    let script = format!(
        "{MODELS}trace = Trace.model_validate_json(open(sys.argv[1]).read())\n\
         assert trace.is_successful() and trace.evaluation.performance.speedup_factor > 8\n\
         assert trace.evaluation.correctness.extra['x-kernelwright']['regime'] == 'cold'\n"
    );
    let path = sandbox.path("work/set/traces/rms_norm/rms_norm_bf16.jsonl");
    let ended = finish(Command::new(&python).args(["-c", &script]).arg(path));
    assert_eq!(ended.code, 0, "{}", ended.stderr);
}

#[test]
fn what_is_added_to_a_reference_calls_it_right() {
    let Some(python) = python("") else {
        eprintln!("skipped: there is no python3");
        return;
    };
    let sandbox = Sandbox::new();
    let check = |file: &str, checks: &str| {
        let script = format!("{}\n{checks}", sandbox.read(file));
        let ended = finish(Command::new(&python).args(["-c", &script]));
        assert_eq!(ended.code, 0, "{}\n{script}", ended.stderr);
    };
    let definition = serde_json::json!({
        "name": "mixed", "op_type": "test", "axes": {},
        "inputs": {
            "a": { "shape": [], "dtype": "float32" }, "s": { "shape": null, "dtype": "int32" },
            "b": { "shape": [], "dtype": "float32" },
        },
        "outputs": { "y": { "shape": [], "dtype": "float32" } },
        "reference": "def run(first, number, last):\n    return [first, number, last]\n",
    });
    sandbox.write("work/mixed.json", &definition.to_string());
    assert_eq!(sandbox.run(&["import", "mixed.json", "--to", "mixed"]).code, 0);
    check("work/mixed/reference.py", "assert mixed_by_keyword(1, 2, s=3) == [1, 3, 2]");

    let op = "format = 1\nname = \"push\"\naxes = { n = { type = \"var\" } }\n[inputs]\n\
        x = { shape = [\"n\"], dtype = \"f32\" }\nstate = { shape = [\"n\"], dtype = \"f32\" }\n\
        [scalars]\nby = { type = \"int\", default = 1 }\n[outputs]\n\
        new_state = { shape = [\"n\"], dtype = \"f32\", inplace = \"state\" }\nout = { shape = [\"n\"], dtype = \"f32\" }\n\
        [reference]\nfile = \"reference.py\"\nfunction = \"push\"\n[call]\nfunction = \"push\"\n\
        [tolerance]\naccumulate = \"f32\"\nlength = \"n\"\nroundings = 1\n[workload.w]\naxes = { n = 1 }\n";
    sandbox.write("work/push/op.toml", op);
    let reference = "def push(x, state, *, by):\n    return state + [by], x + [by]";
    sandbox.write("work/push/reference.py", reference);
    assert_eq!(sandbox.run(&["export", "push", "--to", "set"]).code, 0);
    let text = sandbox.read("work/set/definitions/push/push.json");
    let text: Value = serde_json::from_str(&text).expect("JSON");
    sandbox.write("work/run.py", text["reference"].as_str().expect("a text"));
    check("work/run.py", "assert run([5], [0], 7) == ([0, 7], [5, 7])");
}
