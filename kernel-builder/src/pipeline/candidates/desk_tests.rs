//! A desk with a judge that a test scripts.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kernel_plan::spec::expr;
use kernel_plan::spec::op::Case;
use kernel_plan::spec::tune::Tuning;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::Desk;
use super::judge::{Contender, Effort, Judge, Rounds, Verdict};
use crate::agent::kernel::ProposedKernel;
use crate::agent::lineage::Lineage;
use crate::agent::tuned::Settings;
use crate::base::files;
use crate::base::input::Line;
use crate::base::random::SplitMix;
use crate::base::report::{MessageFormat, Report};
use crate::base::session::Session;
use crate::bench::ncu::{Counters, NoCounters};
use crate::bench::screen::ScreenResult;
use crate::device::gpu::NoDevice;
use crate::device::wire::{DeviceProperties, Function};
use crate::exit::Failure;
use crate::mcp::Tool;
use crate::pipeline::project::device::{self, DeviceProject};
use crate::pipeline::project::kernel;
use crate::verify::lab::{Attempt, CandidateRefusal};
use crate::verify::{self, CheckResult};

/// What the scripted judge saw.
#[derive(Default)]
struct JudgeCalls {
    attempts: usize,
    rests: usize,
    verified: usize,
    /// Whose settings were searched.
    tuned: Vec<String>,
}

/// A judge that reads in the code what becomes of it: `WRONG`, `HELD_OUT_WRONG`, `SPEED 1.25`.
struct Scripted {
    seen: Arc<Mutex<JudgeCalls>>,
    noise: f64,
    random: SplitMix,
    has_gpu: bool,
}

impl Scripted {
    fn speed(proposed: &ProposedKernel) -> f64 {
        let code = &proposed.kernel.files()[&proposed.source];
        let told = code.split("SPEED ").nth(1).and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        told.unwrap_or(1.0)
    }

    fn seconds(&mut self, proposed: &ProposedKernel) -> f64 {
        let uniform = (self.random.next() >> 11) as f64 / (1u64 << 53) as f64;
        1e-5 / Self::speed(proposed) * (1.0 + self.noise * (uniform - 0.5))
    }
}

impl Judge for Scripted {
    fn device(&mut self) -> Result<Result<DeviceProperties, NoDevice>, Failure> {
        let about = DeviceProperties {
            name: "NVIDIA H200".to_owned(),
            capability: (9, 0),
            multiprocessors: 132,
            l2: 50 << 20,
            memory: 1 << 37,
            free: 1 << 37,
            shared: 232_448,
            threads: 1024,
            clock_khz: 1_980_000,
            driver: 13000,
            pci: String::new(),
            uuid: "GPU-none".to_owned(),
            visible: vec![],
        };
        Ok(if self.has_gpu { Ok(about) } else { Err(NoDevice::Absent) })
    }

    fn attempt(&mut self, proposed: &ProposedKernel, tuning: &Tuning, _: &Case) -> Result<Verdict, Failure> {
        self.seen.lock().unwrap().attempts += 1;
        if proposed.kernel.files()[&proposed.source].contains("WRONG_HERE") {
            let text = "rms_norm.cu(7): row 3 is wrong, in /home/me/rms_norm.cu".to_owned();
            return Ok(Verdict::Refused(CandidateRefusal { code: "verify::numerics", text }));
        }
        if !self.has_gpu {
            return Ok(Verdict::Compiled { used: vec![], missing: NoDevice::Absent });
        }
        let block = tuning.iter().find(|(name, _)| name.as_str() == "block").map(|(_, value)| value);
        let factor = match block {
            Some(expr::Value::Integer(block))
                if proposed.kernel.files()[&proposed.source].contains("FAST_AT_512") =>
            {
                0.5 + (block - 512).unsigned_abs() as f64 / 1024.0
            }
            _ => 1.0,
        };
        let samples: Vec<f64> = (0..7).map(|_| factor * self.seconds(proposed)).collect();
        let name = "_ZN3rms4heldE".to_owned();
        let functions = vec![Function { name, registers: 40, shared: 0, local: 0, threads: 1024 }];
        let seconds = samples[0];
        Ok(Verdict::Right(ScreenResult {
            samples,
            seconds,
            copy_fraction: Some(0.9),
            of_bound: 0.1,
            functions,
        }))
    }

    fn rounds(
        &mut self,
        best: &Contender,
        candidate: &Contender,
        _: &Case,
        Effort { starts, rounds, .. }: Effort,
    ) -> Result<Attempt<Vec<Rounds>>, Failure> {
        if best.proposed.kernel.files()[&best.proposed.source].contains("WRONG_HERE") {
            let text = "row 3 is wrong".to_owned();
            return Ok(Err(CandidateRefusal { code: "verify::numerics", text }));
        }
        let start = |judge: &mut Self| Rounds {
            best: (0..rounds).map(|_| judge.seconds(&best.proposed)).collect(),
            candidate: (0..rounds).map(|_| judge.seconds(&candidate.proposed)).collect(),
        };
        Ok(Ok((0..starts).map(|_| start(self)).collect()))
    }

    fn tune(&mut self, proposed: &ProposedKernel, kept: &Path) -> Result<Settings, Failure> {
        assert!(files::exists(&kept.join("op.toml")) && files::exists(&kept.join("reference.py")));
        self.seen.lock().unwrap().tuned.push(proposed.kernel.id());
        Ok(Settings::defaults(&proposed.op))
    }

    fn verify(&mut self, contender: &Contender) -> Result<Result<(), CheckResult>, Failure> {
        self.seen.lock().unwrap().verified += 1;
        let code = &contender.proposed.kernel.files()[&contender.proposed.source];
        assert!(contender.proposed.op.workloads.iter().any(|workload| workload.held_out));
        Ok(if code.contains("WRONG_ELSEWHERE") {
            let (name, code) = ("numerics".to_owned(), "verify::numerics".to_owned());
            let (outcome, facts) = (verify::Outcome::Refused, Value::Null);
            Err(CheckResult { name, code, outcome, summary: "3 elements are wrong".to_owned(), facts })
        } else {
            Ok(())
        })
    }

    fn same_code(
        &mut self,
        one: &ProposedKernel,
        other: &ProposedKernel,
        _: &Tuning,
        _: &Case,
    ) -> Result<bool, Failure> {
        let code = |proposed: &ProposedKernel| {
            proposed.kernel.files()[&proposed.source].replace("// a comment\n", "")
        };
        Ok(code(one) == code(other))
    }

    fn counters(
        &mut self,
        _: &ProposedKernel,
        _: &Tuning,
        _: &Case,
    ) -> Result<Result<Vec<Counters>, NoCounters>, Failure> {
        let values = BTreeMap::from([("dram_percent", 81.0)]);
        Ok(Ok(vec![Counters { kernel: "rms::held".to_owned(), limit: "memory", values }]))
    }

    fn rest(&mut self) {
        self.seen.lock().unwrap().rests += 1;
    }
}

const CODE: &str = include_str!("../../../../examples/rms-norm-device/rms_norm.cu");

struct Place {
    folder: TempDir,
    session: Session,
}

impl Place {
    fn new() -> Self {
        let folder = files::scratch().unwrap();
        let op = include_str!("../../../../examples/rms-norm-device/op.toml");
        let op = op.replace("[workload.llm-128x4096]\n", "[workload.hush-hush]\naxes = { rows = 77, hidden = 770 }\ndevices = [\"cuda\"]\nheld-out = true\n\n[workload.llm-128x4096]\n");
        let write = |name: &str, text: &str| files::write(&folder.path().join("p").join(name), text).unwrap();
        write("op.toml", &op);
        write("rms_norm.cu", CODE);
        write("reference.py", include_str!("../../../../examples/rms-norm-device/reference.py"));
        let report = Report::new(MessageFormat::Human, true);
        let session = Session { report, cache: folder.path().join("cache"), offline: true, jobs: 1 };
        Self { folder, session }
    }

    fn project(&self) -> DeviceProject {
        device::read(&self.folder.path().join("p"), &self.session).unwrap()
    }

    fn at_desk<T>(
        &self,
        has_gpu: bool,
        noise: f64,
        work: impl FnOnce(&mut Desk<'_>, &Mutex<JudgeCalls>) -> T,
    ) -> T {
        let (project, seen) = (self.project(), Arc::new(Mutex::new(JudgeCalls::default())));
        let origin = kernel::origin(&project).unwrap().unwrap();
        let judge = Scripted { seen: seen.clone(), noise, random: SplitMix(1), has_gpu };
        let mut desk = Desk::open(&project, origin, Box::new(judge), &self.session).unwrap().unwrap();
        work(&mut desk, &seen)
    }

    fn lineage(&self) -> Lineage {
        let path = self.folder.path().join("p/.kernelwright/candidates/lineage.jsonl");
        Lineage::read(&files::read_text(&path).unwrap())
    }
}

/// Asks for a tool; nothing that is told may speak of what is held out.
fn ask(desk: &mut Desk<'_>, tool: &str, arguments: Value) -> Value {
    let Value::Object(arguments) = arguments else { panic!("{arguments}") };
    let outcome = desk.ask(tool, Tool::read(tool, arguments));
    let text = outcome.data.to_string();
    for hidden in ["hush", "/home/me"] {
        assert!(!text.contains(hidden), "{hidden}: {text}");
    }
    outcome.data
}

fn with(change: &str) -> Value {
    json!({ "files": { "rms_norm.cu": format!("// {change}\n{CODE}") } })
}

#[test]
fn a_faster_candidate_replaces_the_best_and_the_next_one_starts_from_it() {
    let place = Place::new();
    place.at_desk(true, 0.01, |desk, seen| {
        let task = ask(desk, "task", json!({}));
        let seed = task["best"]["id"].as_str().unwrap().to_owned();
        assert_eq!(task["best"]["files"]["rms_norm.cu"], CODE);
        assert_eq!(task["may_change"]["op.toml"], json!(["let", "tune", "launch"]));
        let first = ask(desk, "try", with("SPEED 1.2"));
        assert_eq!((&first["verdict"], &first["parent"]), (&json!("passed"), &json!(seed)));
        assert!(first["of_best"]["low"].as_f64().unwrap() > 1.1, "{first}");
        assert_eq!(seen.lock().unwrap().verified, 0, "a try is no full verification");
        let kept = ask(desk, "submit", json!({ "id": first["id"], "note": "wider loads" }));
        assert_eq!((&kept["verdict"], &kept["best_before"]), (&json!("kept"), &json!(seed)));
        let id = first["id"].as_str().unwrap().to_owned();
        assert_eq!(seen.lock().unwrap().tuned, [seed, id], "the best has as good a chance as the candidate");
        let next = ask(desk, "try", with("SPEED 1.1"));
        assert_eq!(next["parent"], first["id"]);
        let late = ask(desk, "submit", json!({ "id": next["id"] }));
        assert_eq!(late["verdict"], "not faster");
        assert!(late["gain"]["high"].as_f64().unwrap() < 1.0, "{late}");
        let again = ask(desk, "submit", json!({ "id": next["id"] }));
        assert_eq!(again["code"], "agent::seen");
        let history = ask(desk, "history", json!({}));
        assert_eq!((&history["best"], history["candidates"].as_array().unwrap().len()), (&first["id"], 3));
        let diff = ask(desk, "history", json!({ "diff": ["seed", "best"] }));
        assert!(diff["diff"].as_str().unwrap().contains("+// SPEED 1.2"), "{diff}");
    });
    // Another run goes on where this one ended.
    let lineage = place.lineage();
    let best = lineage.best().unwrap();
    assert_eq!((best.note.as_deref(), best.gain.is_some()), (Some("wider loads"), true));
    place.at_desk(true, 0.0, |desk, _| {
        let profile = ask(desk, "profile", json!({ "id": "best" }));
        let kernel = &profile["kernels"][0];
        assert_eq!(
            (&kernel["registers"], &kernel["limited_by"]),
            (&json!(40), &json!("registers")),
            "{profile}"
        );
        let counters = &profile["counters"][0];
        assert_eq!((&counters["limit"], &counters["dram_percent"]), (&json!("memory"), &json!(81.0)));
    });
}

#[test]
fn copies_of_the_best_never_replace_it() {
    let place = Place::new();
    place.at_desk(true, 0.06, |desk, _| {
        for number in 0..50 {
            let copy = ask(desk, "try", with(&format!("copy {number}")));
            let answer = ask(desk, "submit", json!({ "id": copy["id"] }));
            assert_eq!(answer["verdict"], "not faster", "{number}: {answer}");
        }
    });
}

#[test]
fn the_machine_code_of_the_best_is_no_new_kernel() {
    let place = Place::new();
    place.at_desk(true, 0.0, |desk, seen| {
        let copy = ask(desk, "try", json!({ "files": { "rms_norm.cu": format!("// a comment\n{CODE}") } }));
        let answer = ask(desk, "submit", json!({ "id": copy["id"] }));
        assert_eq!((&answer["verdict"], &answer["code"]), (&json!("not faster"), &json!("agent::same_code")));
        assert_eq!(seen.lock().unwrap().verified, 0, "nothing is spent on it");
    });
}

#[test]
fn a_right_kernel_replaces_a_wrong_seed() {
    let place = Place::new();
    let source = place.folder.path().join("p/rms_norm.cu");
    files::write(&source, format!("// WRONG_HERE\n{CODE}")).unwrap();
    place.at_desk(true, 0.0, |desk, seen| {
        let right = ask(desk, "try", json!({ "files": { "rms_norm.cu": CODE } }));
        let answer = ask(desk, "submit", json!({ "id": right["id"] }));
        assert_eq!((&answer["verdict"], &answer["gain"]), (&json!("kept"), &Value::Null), "{answer}");
        assert_eq!(
            json!(seen.lock().unwrap().tuned),
            json!([right["id"]]),
            "a wrong kernel needs no settings"
        );
    });
}

#[test]
fn what_is_wrong_anywhere_is_refused_and_of_what_is_held_out_nothing_is_told() {
    let place = Place::new();
    place.at_desk(true, 0.0, |desk, seen| {
        let wrong = ask(desk, "try", with("WRONG_HERE"));
        assert_eq!((&wrong["verdict"], &wrong["code"]), (&json!("refused"), &json!("verify::numerics")));
        assert_eq!(wrong["place"], json!({ "file": "rms_norm.cu", "line": 7 }));
        let refused = ask(desk, "submit", json!({ "id": wrong["id"] }));
        assert_eq!(refused["code"], "agent::not_right");
        let elsewhere = ask(desk, "try", with("WRONG_ELSEWHERE SPEED 2"));
        let refused = ask(desk, "submit", json!({ "id": elsewhere["id"] }));
        assert_eq!((&refused["verdict"], &refused["code"]), (&json!("refused"), &json!("verify::numerics")));
        assert_eq!(seen.lock().unwrap().verified, 1);
        assert_eq!(
            ask(desk, "try", json!({ "from": "best", "workload": "none" }))["code"],
            "bench::unknown_workload"
        );
        let history = ask(desk, "history", json!({}));
        assert_eq!(history["refusals"], json!({ "verify::numerics": 2 }));
    });
    assert_eq!(place.lineage().best(), place.lineage().seed());
}

#[test]
fn what_is_no_candidate_costs_no_judgement_and_no_try() {
    let place = Place::new();
    place.at_desk(true, 0.0, |desk, seen| {
        desk.limit(Some(2));
        let op = files::read_text(&place.folder.path().join("p/op.toml")).unwrap();
        let frozen = json!({ "files": { "op.toml": op.replace("roundings = 1", "roundings = 9") } });
        for (arguments, code) in [
            (json!({ "files": {} }), "agent::unchanged"),
            (json!({ "files": { "rms_norm.cu": CODE } }), "agent::unchanged"),
            (json!({ "files": { "rms_norm.cu": "" } }), "agent::empty"),
            (frozen, "agent::frozen"),
            (json!({ "files": { "reference.py": "def rms_norm(): pass" } }), "agent::frozen"),
            (json!({ "files": { "../x.cu": "" } }), "agent::no_source"),
            (json!({ "files": { "build.toml": "" } }), "agent::no_source"),
            (json!({ "files": { "rms_norm.cu": "x".repeat(300_000) } }), "agent::too_large"),
            (json!({ "from": "ffffffff" }), "agent::unknown_candidate"),
            (json!({ "from": "best", "settings": { "block": 7 } }), "agent::arguments"),
            (json!({ "from": "best", "settings": { "blocks": 32 } }), "agent::arguments"),
            (json!({ "dir": "/nowhere/at/all" }), "agent::arguments"),
            (json!({}), "agent::arguments"),
        ] {
            let answer = ask(desk, "try", arguments.clone());
            assert_eq!(answer["code"], code, "{arguments}: {answer}");
        }
        assert_eq!(seen.lock().unwrap().attempts, 0);
        let first = ask(desk, "try", with("one"));
        assert_eq!(first["tries_left"], 1);
        let again = ask(desk, "try", with("one"));
        assert_eq!((&again["seen"], &again["seconds"]), (&json!("agent::seen"), &first["seconds"]));
        assert_eq!(seen.lock().unwrap().attempts, 1);
        ask(desk, "try", with("two"));
        assert_eq!(ask(desk, "try", with("three"))["code"], "agent::tries");
        let refusals = ask(desk, "history", json!({}))["refusals"].clone();
        assert_eq!((&refusals["agent::unchanged"], &refusals["agent::frozen"]), (&json!(2), &json!(2)));
    });
}

#[test]
fn without_a_gpu_nothing_counts_as_right() {
    let place = Place::new();
    place.at_desk(false, 0.0, |desk, _| {
        let task = ask(desk, "task", json!({}));
        assert_eq!(task["device"]["code"], "bench::no_gpu");
        let answer = ask(desk, "try", with("SPEED 9"));
        assert_eq!(
            (&answer["verdict"], &answer["judged"], &answer["code"]),
            (&json!("compiled"), &json!(false), &json!("bench::no_gpu"))
        );
        assert!(answer.get("seconds").is_none(), "{answer}");
        assert_eq!(ask(desk, "submit", json!({ "id": answer["id"] }))["code"], "bench::no_gpu");
    });
    // With a GPU it is judged before it can be handed in.
    place.at_desk(true, 0.0, |desk, _| {
        let id = place.lineage().entries()[1].id.clone();
        assert_eq!(ask(desk, "submit", json!({ "id": id }))["code"], "agent::not_tried");
        assert_eq!(ask(desk, "try", json!({ "from": id }))["verdict"], "passed");
        assert_eq!(ask(desk, "submit", json!({ "id": id }))["verdict"], "kept");
    });
}

#[test]
fn silence_frees_the_gpu_and_no_line_ends_the_server() {
    let place = Place::new();
    place.at_desk(true, 0.0, |desk, seen| {
        let call = json!({
            "jsonrpc": "2.0", "id": 3, "method": "tools/call",
            "params": { "name": "try", "arguments": with("SPEED 2"), "_meta": { "progressToken": 1 } },
        });
        let mut lines = vec![
            Line::Text("{".to_owned()),
            Line::TooLong,
            Line::Silence,
            Line::Text(call.to_string()),
            Line::Text(String::new()),
        ]
        .into_iter();
        let mut said: Vec<Value> = Vec::new();
        let mut next = |within: Duration| {
            let line = lines.next();
            assert!(within.as_secs() >= 60 || !matches!(line, Some(Line::Silence)));
            line.unwrap_or(Line::End)
        };
        super::serve::serve(&mut next, desk, &mut |line| said.push(serde_json::from_str(line).unwrap()));
        let errors: Vec<&Value> = said.iter().filter_map(|answer| answer["error"].get("code")).collect();
        assert_eq!(errors, [&json!(-32700), &json!(-32600)]);
        assert_eq!(said[2]["method"], "notifications/progress");
        assert_eq!(said[3]["result"]["structuredContent"]["verdict"], "passed");
        assert_eq!((said.len(), seen.lock().unwrap().rests), (4, 1));
    });
}

#[test]
fn the_settings_of_a_right_kernel_are_searched_while_nobody_asks() {
    let place = Place::new();
    place.at_desk(true, 0.0, |desk, seen| {
        let call = |id: u32, tool: &str, arguments: Value| {
            let call = json!({ "name": tool, "arguments": arguments });
            Line::Text(
                json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": call }).to_string(),
            )
        };
        let mut said: Vec<Value> = Vec::new();
        let (mut silences, mut waits) = (0, Vec::new());
        let mut lines = vec![
            call(1, "try", with("WRONG_HERE")),
            call(2, "try", with("FAST_AT_512")),
            call(3, "history", json!({})),
        ]
        .into_iter()
        .peekable();
        let mut next = |within: Duration| {
            // Nobody asks for a long time before `history`, and again before the end.
            let is_silent = lines.len() <= 1 && silences < 120 * (2 - lines.len());
            if is_silent {
                silences += 1;
                waits.push(within);
                return Line::Silence;
            }
            lines.next().unwrap_or(Line::End)
        };
        super::serve::serve(&mut next, desk, &mut |line| said.push(serde_json::from_str(line).unwrap()));
        let tried = &said[1]["result"]["structuredContent"];
        assert!(tried["settings_search"].as_str().unwrap().starts_with("begun"), "{tried}");
        let history = &said[2]["result"]["structuredContent"]["candidates"];
        let figure = &history[2]["figures"]["llm-128x4096/T=bf16"];
        let (seconds, block) = (&figure["seconds"], figure["settings"]["block"].as_i64().unwrap());
        // The default block of 256 takes 0.75 of 10 us, and the best one 0.5.
        assert!(seconds.as_f64().unwrap() < 0.72e-5 && block != 256, "{history}");
        // It ends, and then the server waits until the GPU is let go.
        assert!(waits[0].as_secs() < 1 && waits.last().unwrap().as_secs() >= 60, "{waits:?}");
        let seen = seen.lock().unwrap();
        assert!((10..60).contains(&seen.attempts), "{}", seen.attempts);
    });
}

#[test]
fn no_secret_is_kept() {
    let place = Place::new();
    crate::base::secrets::hide("sk-hunter2hunter2");
    place.at_desk(true, 0.0, |desk, _| {
        let mut arguments = with("SPEED 2");
        arguments["note"] = json!("tried with sk-hunter2hunter2");
        ask(desk, "try", arguments);
        assert_eq!(ask(desk, "try", with("sk-hunter2hunter2"))["code"], "agent::secret");
    });
    let mut kept = BTreeMap::new();
    for path in files::walk_unfollowed(&place.folder.path().join("p/.kernelwright"), |_| true).unwrap() {
        let text = files::read_text(&place.folder.path().join("p/.kernelwright").join(&path)).unwrap();
        assert!(!text.contains("hunter2"), "{}", path.display());
        kept.insert(path, text);
    }
    assert!(kept.values().any(|text| text.contains("tried with ***")), "{kept:?}");
}
