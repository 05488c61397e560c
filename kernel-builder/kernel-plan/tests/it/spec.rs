//! Files without a problem: what is read, and the concrete calls that follow.

use kernel_plan::diagnostic::Severity;
use kernel_plan::spec::op::{Device, Purpose};
use kernel_plan::spec::{self, build::StableAbi};
use kernel_plan::units::{BackendId, FileExtension};
use proptest::prelude::*;

use crate::project::{part, read, render};

const RMS_NORM: &str = include_str!("../spec/ok/rms_norm.toml");
const EVERY_KEY: &str = include_str!("../spec/ok/every_key.toml");
const NOARCH: &str = include_str!("../spec/ok/noarch.toml");
const TVM_FFI: &str = include_str!("../spec/ok/tvm_ffi.toml");

#[test]
fn good_projects_have_no_problem() {
    for text in [RMS_NORM, EVERY_KEY, NOARCH, TVM_FFI] {
        let mut problems = read(text).problems;
        // Notes are no problem: what names CUDA releases is told which of its capabilities each lacks.
        problems.retain(|problem| problem.severity != Severity::Note);
        assert_eq!(render(&problems), "");
    }
}

#[test]
fn build_toml_is_read() {
    let build = read(RMS_NORM).build.expect("a spec");
    assert_eq!(build.general.name.module(), "rms_norm");
    assert!(build.declares(BackendId::Cuda) && !build.declares(BackendId::Rocm));
    let kernel = build.kernels_of(BackendId::Cuda).next().expect("a CUDA kernel");
    let capabilities: Vec<_> =
        kernel.cuda_capabilities.iter().map(|capability| capability.digits()).collect();
    assert_eq!(capabilities, ["80", "90a", "100", "120"]);
    let torch = build.torch().expect("[torch]");
    assert_eq!(torch.pyext, FileExtension::defaults());
    assert!(matches!(&torch.stable_abi, Some(StableAbi::All(version)) if version.to_string() == "2.11"));
}

#[test]
fn values_know_their_place() {
    let build = read(RMS_NORM).build.expect("a spec");
    let text = &build.file.text;
    assert_eq!(&text[build.general.name.span.clone()], "\"rms-norm\"");
    assert_eq!(&text[build.kernels[0].name.span.clone()], "rms_norm_cuda");
    assert_eq!(&text[build.kernels[0].src[0].span.clone()], "\"rms_norm_cuda/rms_norm.cu\"");
}

#[test]
fn a_stable_abi_per_backend_leaves_the_others_full() {
    let build = read(EVERY_KEY).build.expect("a spec");
    let stable = build.torch().and_then(|torch| torch.stable_abi.as_ref()).expect("stable-abi");
    assert_eq!(stable.floor(BackendId::Cuda).expect("a floor").to_string(), "2.11");
    assert_eq!(stable.floor(BackendId::Cpu), None);
}

#[test]
fn cases_are_workloads_times_dtypes() {
    let op = read(RMS_NORM).op.expect("a spec");
    let ids = |purpose, device| -> Vec<String> {
        op.cases(purpose, device).into_iter().map(|case| case.id).collect()
    };
    assert_eq!(ids(Purpose::Bench, Device::Cuda), ["llama-prefill/T=bf16"]);
    assert_eq!(ids(Purpose::Bench, Device::Cpu), [""; 0]);
    assert_eq!(ids(Purpose::Verify, Device::Cpu), ["odd/T=bf16", "odd/T=f16", "odd/T=f32"]);
}

#[test]
fn a_case_is_concrete_and_in_argument_order() {
    let op = read(RMS_NORM).op.expect("a spec");
    let case = op.cases(Purpose::Verify, Device::Cuda).into_iter().next().expect("a case");
    assert_eq!(case.inputs[0].bytes(), 2048 * 4096 * 2);
    insta::assert_snapshot!("case", toml::to_string(&case).expect("a case is plain data"));
}

#[test]
fn several_type_variables_multiply_and_const_axes_are_filled_in() {
    let op = read(EVERY_KEY).op.expect("a spec");
    let cases = op.cases(Purpose::Verify, Device::Cpu);
    let ids: Vec<_> = cases.iter().map(|case| case.id.as_str()).collect();
    assert_eq!(ids, ["both/S=f32,T=bf16", "both/S=f32,T=f16"]);
    assert_eq!(cases[0].inputs[0].shape, [4, 128]);
    assert_eq!(cases[0].accumulated, 128);
}

#[test]
fn problems_come_in_file_order_and_all_at_once() {
    let text = "[general]\nnme = \"x\"\nversion = -1\nedition = 5\n[torch]\nsrc = 1\n[kernel.a]\nbackend = \"cudaa\"\n";
    let (build, problems) = spec::parse_build(kernel_plan::diagnostic::SourceFile::new("build.toml", text));
    // What [general] lacks keeps nobody from judging the rest; a kernel without a backend is left out.
    assert!(build.is_some_and(|build| build.kernels.is_empty() && build.unread_kernels == 1));
    let offsets: Vec<_> = problems.iter().map(|problem| problem.offset()).collect();
    assert!(offsets.is_sorted());
    // `nme` stands for `name`, which is not missing as well.
    assert_eq!(problems.len(), 8, "{}", render(&problems));
}

proptest! {
    /// Whatever is cut out of a good file or put into it, reading it ends with labels inside of the text.
    #[test]
    fn reading_never_panics(start in 0usize..1100, length in 0usize..60, put in "|\"|\\[|\\]|=|1|é|\r\n|\\{|#|'''|\\.") {
        for name in ["build.toml", "op.toml"] {
            let good = part(RMS_NORM, name).expect("the part is there").text.clone();
            let (start, end) = (start.min(good.len()), (start + length).min(good.len()));
            let text = format!("{}{put}{}", &good[..start], &good[end..]);
            let file = kernel_plan::diagnostic::SourceFile::new(name, text.clone());
            let problems = if name == "op.toml" { spec::parse_op(file).1 } else { spec::parse_build(file).1 };
            for problem in &problems {
                prop_assert!(problem.labels.iter().all(|(span, _)| span.end <= text.len()), "{problem}");
            }
            render(&problems);
        }
    }
}
