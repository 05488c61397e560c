//! What Hugging Face's own client takes of a folder, where a Python with the package `kernels` is there.
//!
//! Owns: drawing environments and folders, and asking the client in a process that looks like each environment.
//! Never: says what is right; the client does.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use kernel_plan::units::Version;
use kernel_plan::variant::preference::{Environment, rank};
use kernel_plan::variant::{Cpu, Matrix, Os, Toolkit, Variant};
use serde::Deserialize;
use serde_json::{Value, json};

/// The repository's list of variants.
const VARIANTS: &str = include_str!("../../../variants.toml");

/// Reads one question a line and answers each in a line. The client is asked through its public function; what it looks
/// at (torch, tvm-ffi, the machine, the Python) is replaced first.
const ASK: &str = r#"
import json, platform, sys
from types import ModuleType, SimpleNamespace
import kernels.backends, kernels.variants as client
import logging
logging.disable(logging.CRITICAL)

def torch(version, backend, toolkit):
    fake = ModuleType("torch")
    fake.__version__ = version + ".1+test"
    fake.compiled_with_cxx11_abi = lambda: True
    fake.backends = SimpleNamespace(mps=SimpleNamespace(is_available=lambda: backend == "metal"))
    fake.version = SimpleNamespace(cuda=None, hip=None, xpu=None)
    fake._C = SimpleNamespace(_get_privateuse1_backend_name=lambda: "npu" if backend == "cann" else "none")
    if backend == "cuda":
        fake.version.cuda = toolkit
    elif backend == "rocm":
        fake.version.hip = toolkit + ".12345-abcdef"
    elif backend == "xpu":
        year, release = toolkit.split(".")
        fake.version.xpu = f"{year}0{release}00"
    elif backend == "neuron":
        fake.neuron = SimpleNamespace()
    elif backend == "tpu":
        fake.backends.tpu = SimpleNamespace()
    elif backend == "cann":
        asked = ModuleType("torch_npu.utils.collect_env")
        asked.get_cann_version = lambda: toolkit + ".RC1"
        for name in ["torch_npu", "torch_npu.utils"]:
            sys.modules[name] = ModuleType(name)
        sys.modules[asked.__name__] = asked
    return fake

def answer(question):
    have = question["torch"] is not None
    client.has_torch = kernels.backends.has_torch = have
    client.has_tvm_ffi = question["tvm_ffi"] is not None
    backend, toolkit = question["backend"], question["toolkit"]
    sys.modules["torch"] = torch(question["torch"] or "0.0", backend, toolkit)
    sys.modules["tvm_ffi"] = SimpleNamespace(__version__=(question["tvm_ffi"] or "0.0") + ".15.post2")
    cudart = None if backend != "cuda" else kernels.backends.CUDA.parse("cu" + toolkit.replace(".", ""))
    kernels.backends._get_cuda = lambda: cudart
    darwin = question["os"] == "darwin"
    platform.machine = lambda: "arm64" if darwin and question["cpu"] == "aarch64" else question["cpu"]
    platform.system = lambda: question["os"].capitalize()
    platform.mac_ver = lambda: (question["macos"] or "", ("", "", ""), "")
    client._is_unsupported_free_threaded_build = lambda: question["free_threaded"]
    folder = [client.parse_variant(name) for name in question["folder"]]
    accepted, trace = client.resolve_variants(folder, "cpu" if question["asked_for_cpu"] else None)
    rejected = [d.variant.variant_str for d in trace if isinstance(d, client.VariantRejected)]
    return {"accepted": [variant.variant_str for variant in accepted], "rejected": rejected}

def reading(name):
    try:
        return {"read": client.parse_variant(name).variant_str}
    except ValueError:
        return {"read": None}

for line in sys.stdin:
    question = json.loads(line)
    print(json.dumps(answer(question) if isinstance(question, dict) else reading(question)))
"#;

/// A Python that imports the client: KERNELWRIGHT_PYTHON, else python3. With `None` it was said why the test skips.
///
/// # Panics
/// There is none, and KERNELWRIGHT_REQUIRE_OFFICIAL is set.
fn python() -> Option<PathBuf> {
    let named = std::env::var_os("KERNELWRIGHT_PYTHON").map(PathBuf::from);
    let found = named.into_iter().chain([PathBuf::from("python3")]).find(|python| {
        let mut command = Command::new(python);
        command.args(["-c", "import kernels.variants"]);
        command.output().is_ok_and(|output| output.status.success())
    });
    if found.is_none() {
        let reason = "no Python imports `kernels.variants`; set KERNELWRIGHT_PYTHON to one that does";
        assert!(std::env::var_os("KERNELWRIGHT_REQUIRE_OFFICIAL").is_none(), "{reason}");
        eprintln!("skipped: {reason}");
    }
    found
}

/// The client's answers, in the order of the questions; `None` where there is no client.
fn ask(questions: &[Value]) -> Option<Vec<Value>> {
    let mut child = Command::new(python()?)
        .args(["-c", ASK])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a Python");
    let mut input = child.stdin.take().expect("a pipe");
    let text: String = questions.iter().map(|question| format!("{question}\n")).collect();
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().expect("an end");
    writer.join().expect("a thread").expect("all questions are read");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answers: Vec<Value> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(answers.len(), questions.len());
    Some(answers)
}

/// Draws numbers; the same ones every time (Marsaglia's xorshift64, seed below).
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(end).expect("a small number")).expect("a small number")
    }

    fn pick<T: Copy>(&mut self, choice: &[T]) -> T {
        choice[self.below(choice.len())]
    }

    fn environment(&mut self, index: usize) -> (Environment, bool) {
        let cuda = [(12, 6), (12, 8), (12, 9), (13, 0), (13, 1), (13, 2), (13, 4)];
        let (major, minor) = self.pick(&cuda);
        let toolkit = match index % 10 {
            0..=4 => Toolkit::Cuda(Version::new(major, minor)),
            5 | 6 => Toolkit::Cpu,
            7 => self.pick(&[Toolkit::Rocm(Version::new(7, 1)), Toolkit::Rocm(Version::new(7, 2))]),
            8 => Toolkit::Metal,
            _ => self.pick(&[
                Toolkit::Xpu(Version::new(2025, 3)),
                Toolkit::Neuron,
                Toolkit::Tpu,
                Toolkit::Cann(Version::new(8, 5)),
            ]),
        };
        let asked_for_cpu = matches!(toolkit, Toolkit::Cuda(_)) && self.below(6) == 0;
        let metal = toolkit == Toolkit::Metal;
        // Without torch the client knows cpu and CUDA alone.
        let plain = matches!(toolkit, Toolkit::Cpu | Toolkit::Cuda(_));
        let torch =
            (!plain || self.below(6) > 0).then(|| Version::new(2, self.pick(&[9, 10, 11, 12, 13, 14, 15])));
        let environment = Environment {
            torch,
            tvm_ffi: (self.below(2) == 0).then(|| self.pick(&[Version::new(0, 1), Version::new(0, 2)])),
            toolkit,
            cpu: if metal { Cpu::Aarch64 } else { self.pick(&[Cpu::X86_64, Cpu::X86_64, Cpu::Aarch64]) },
            os: if metal { Os::Darwin } else { self.pick(&[Os::Linux, Os::Linux, Os::Linux, Os::Windows]) },
            macos: metal.then(|| self.pick(&[Version::new(15, 7), Version::new(26, 0), Version::new(26, 1)])),
            free_threaded: self.below(8) == 0,
        };
        (environment, asked_for_cpu)
    }

    /// Up to 39 variants in any order, none twice; a good part of them for the machine of the environment.
    fn folder(&mut self, pool: &[Variant], environment: &Environment) -> Vec<Variant> {
        let near = |variant: &&Variant| {
            variant.backend().is_none_or(|backend| backend == environment.toolkit.id())
                && variant
                    .compiled()
                    .is_none_or(|compiled| (compiled.cpu, compiled.os) == (environment.cpu, environment.os))
        };
        let near: Vec<Variant> = pool.iter().filter(near).copied().collect();
        let mut folder = Vec::new();
        for _ in 0..self.below(40) {
            let from = if self.below(3) > 0 && !near.is_empty() { &near } else { pool };
            let variant = self.pick(from);
            if !folder.contains(&variant) {
                folder.push(variant);
            }
        }
        folder
    }
}

/// Ids of other folders than ours: older, without a tag, for other systems.
const OTHERS: &[&str] = &[
    "torch-universal",
    "torch29-cxx11-cu126-x86_64-linux",
    "torch29-cxx98-cu126-x86_64-linux",
    "torch-stable-abi29-cu126-x86_64-linux",
    "torch-stable-abi29-cu130-x86_64-linux",
    "torch-stable-abi29-cpu-aarch64-linux",
    "torch212-cu130-x86_64-linux",
    "torch213-cu132-x86_64-linux",
    "torch213-cpu-x86_64-linux",
    "torch212-cxx98-cu130-x86_64-linux",
    "torch212-cu129-aarch64-linux",
    "torch213-cu130-x86_64-windows",
    "torch213-cxx11-cu130-x86_64-windows",
    "torch-stable-abi211-cu130-x86_64-windows",
    "torch-stable-abi211-cpu-x86_64-windows",
    "tvm-ffi02-cu130-x86_64-linux",
    "tvm-ffi01-rocm71-x86_64-linux",
    "tvm-ffi01-metal-aarch64-darwin",
    "torch212-cxx11-neuron-x86_64-linux",
    "torch-stable-abi210-tpu-x86_64-linux",
    "torch213-cxx11-cann85-aarch64-linux",
    "torch-stable-abi211-cann84-x86_64-linux",
    "torch213-cxx11-metal-aarch64-darwin",
];

fn pool() -> Vec<Variant> {
    let matrix = Matrix::parse(VARIANTS).expect("variants.toml");
    let others = OTHERS.iter().map(|id| id.parse().expect("an id"));
    matrix.rows.iter().map(|row| row.variant.value).chain(others).collect()
}

#[derive(Deserialize)]
struct Answer {
    accepted: Vec<String>,
    rejected: Vec<String>,
}

#[test]
fn our_choice_is_the_clients() {
    let pool = pool();
    let mut draw = Draw(0x6b65_726e_656c_7321);
    let mut drawn = Vec::new();
    for index in 0..60 {
        let (environment, asked_for_cpu) = draw.environment(index);
        for _ in 0..8 {
            drawn.push((environment, asked_for_cpu, draw.folder(&pool, &environment)));
        }
    }
    let questions: Vec<Value> = drawn
        .iter()
        .map(|(environment, asked_for_cpu, folder)| {
            json!({
                "torch": environment.torch,
                "tvm_ffi": environment.tvm_ffi,
                "backend": environment.toolkit.id(),
                "toolkit": environment.toolkit.version(),
                "asked_for_cpu": asked_for_cpu,
                "cpu": environment.cpu,
                "os": environment.os,
                "macos": environment.macos,
                "free_threaded": environment.free_threaded,
                "folder": folder,
            })
        })
        .collect();
    let Some(answers) = ask(&questions) else { return };
    let (mut choices, mut orders) = (0, 0);
    for (((environment, asked_for_cpu, folder), question), answer) in
        drawn.iter().zip(&questions).zip(answers)
    {
        let theirs: Answer = serde_json::from_value(answer).expect("an answer");
        let toolkit = if *asked_for_cpu { Toolkit::Cpu } else { environment.toolkit };
        let ours = rank(folder, &Environment { toolkit, ..*environment });
        let accepted: Vec<_> = ours.accepted.iter().map(ToString::to_string).collect();
        assert_eq!(accepted.first(), theirs.accepted.first(), "the choice in {question}");
        assert_eq!(accepted, theirs.accepted, "the order in {question}");
        // What a free-threaded Python cannot load is not even mentioned by the client.
        let mut rejected: Vec<_> = ours.rejected.iter().map(|(variant, _)| *variant).collect();
        rejected.retain(|variant| !environment.free_threaded || variant.compiled().is_none());
        let mut rejected: Vec<_> = rejected.iter().map(ToString::to_string).collect();
        let mut others = theirs.rejected;
        rejected.sort();
        others.sort();
        assert_eq!(rejected, others, "what does not load in {question}");
        choices += usize::from(!accepted.is_empty());
        orders += usize::from(accepted.len() > 2);
    }
    assert!(choices > 200 && orders > 100, "the draws say little: {choices} choices, {orders} orders");
}

#[test]
fn the_client_reads_our_ids_as_we_do() {
    let pool = pool();
    let ids: Vec<String> = pool.iter().map(ToString::to_string).collect();
    // Not among them: `torch-` with any other word, which the client reads as a backend that nobody has.
    let refused =
        ["", "tvm-ffi", "torch2-cpu-x86_64-linux", "torch211-cxx11-cu1-x86_64-linux", "torch-stable-abi"];
    let texts: Vec<&str> = ids.iter().map(String::as_str).chain(refused).collect();
    let questions: Vec<Value> = texts.iter().map(|text| json!(text)).collect();
    let Some(answers) = ask(&questions) else { return };
    for (text, answer) in texts.iter().zip(answers) {
        let ours = text.parse::<Variant>().ok().map(|variant| variant.to_string());
        assert_eq!(json!(ours), answer["read"], "`{text}`");
    }
}
