//! What nvcc's printed steps become: the texts in `tests/steps` are what nvcc 13.0 printed, with other paths.

use std::fmt::Write;

use kernel_plan::kit::{CudaKit, FrontEnd};
use kernel_plan::plan::CommandLine;
use kernel_plan::steps::{self, NvccFallback, Steps};

const THREE: &str = include_str!("../steps/three.txt");
const FLAGS: &str = include_str!("../steps/flags.txt");

fn kit(front: Option<FrontEnd>) -> CudaKit {
    CudaKit {
        version: "12.6".to_owned(),
        nvcc: "/front/bin/nvcc".into(),
        root: "/older".into(),
        include: vec!["/older/include".into()],
        cudart: "/older/lib/libcudart.so.12".into(),
        front,
        installed: false,
        id: "c1".to_owned(),
    }
}

fn lent() -> CudaKit {
    kit(Some(FrontEnd {
        version: "13.0".to_owned(),
        root: "/front".into(),
        ptx: "8.5".to_owned(),
        build: 85,
    }))
}

fn shown(steps: &Steps) -> String {
    let mut text = String::new();
    let mut line = |name: &str, command: &CommandLine| {
        let variables: String = command.env.iter().map(|(name, value)| format!(" {name}={value}")).collect();
        writeln!(text, "{name}:{variables} {} {}", command.program.display(), command.args.join(" "))
    };
    let mut all = || -> std::fmt::Result {
        for device in &steps.devices {
            line(&format!("{} preprocess", device.arch), &device.preprocess)?;
            line(&format!("{} cicc", device.arch), &device.cicc)?;
            for step in &device.assemble {
                line(&format!("{} {}", device.arch, step.arch), &step.ptxas)?;
            }
        }
        line("host preprocess", &steps.host.preprocess)?;
        line("host cudafe++", &steps.host.cudafe)?;
        line("host compile", &steps.host.compile)?;
        line("fatbinary", &steps.fatbinary)
    };
    all().expect("a string takes everything");
    let Steps { fat, embed, module_id, host, .. } = steps;
    text + &format!("files: {fat} {embed} {module_id} {} {}\n", host.source, host.stub)
}

#[test]
fn every_architecture_has_its_steps() {
    let steps = steps::read(THREE).expect("an answer of nvcc 13.0").for_kit(&kit(None));
    insta::assert_snapshot!(shown(&steps));
}

#[test]
fn nvcc_12_leaves_its_compiler_to_the_path() {
    let bare = |text: &str| text.replace("\"$CICC_PATH/cicc\"", "cicc");
    let cicc = |text: &str| steps::read(text).map(|steps| steps.devices[0].cicc.program.clone());
    assert_eq!(cicc(&bare(THREE)), Ok("/front/nvvm/bin/cicc".into()));
    // Debian's lies beside nvcc.
    let beside = bare(THREE).replace("/front/nvvm/bin:", "").replace("/nvvm/bin", "/bin");
    assert_eq!(cicc(&beside), Ok("/front/bin/cicc".into()));
}

#[test]
fn an_older_toolkit_has_its_headers_version_and_assembler() {
    let steps = steps::read(FLAGS).expect("an answer of nvcc 13.0").for_kit(&lent());
    insta::assert_snapshot!(shown(&steps));
}

#[test]
fn another_shape_is_refused() {
    let refused = |text: &str| steps::read(text).expect_err("no steps");
    assert!(matches!(refused(&format!("{THREE}#$ nvlink a.o -o b.o\n")), NvccFallback::Line(_)));
    let without = |word: &str| -> String {
        THREE.lines().filter(|line| !line.contains(word)).map(|line| format!("{line}\n")).collect()
    };
    assert_eq!(refused(&without("fatbinary --create")), NvccFallback::Lacks("fatbinary"));
    assert_eq!(refused(&without("cpp4.ii")), NvccFallback::Lacks("cudafe++"));
    assert_eq!(
        refused(&without("compute_80.cpp1.ii")),
        NvccFallback::Lacks("a compiler for each architecture")
    );
    assert_eq!(refused(""), NvccFallback::Lacks("a compiler for each architecture"));
}

#[test]
fn the_host_compiler_stops_at_assembler_text() {
    let steps = steps::read(FLAGS).expect("an answer of nvcc 13.0");
    let (to_text, to_object) = steps::host_phases(&steps.host.compile, "unit.s").expect("two phases");
    assert!(to_text.args.contains(&"-S".to_owned()) && to_text.args.ends_with(&["unit.s".to_owned()]));
    assert_eq!(to_object.args.join(" "), "-m64 -x assembler -c unit.s -o unit.o");
}

#[test]
fn what_the_driver_writes_follows_from_its_inputs() {
    let id = steps::module_id("src/my norm.cu", "0123456789abcdef01");
    assert_eq!(id, "_01234567_10_my_norm_cu_89abcdef");
    let ptx = "//\n.version 9.0\n.target sm_80\n// .version 9.0\n";
    assert_eq!(steps::older_ptx(ptx, "8.5"), "//\n.version 8.5\n.target sm_80\n// .version 9.0\n");
    assert!(steps::embedding("unit.o.fatbin").contains(".incbin \\\"unit.o.fatbin\\\""));
}

#[test]
fn a_lent_compiler_has_no_older_architecture_and_says_so() {
    let reached = |text: &str| lent().reaches(text.parse().expect("a capability"));
    assert!(reached("7.5") && reached("9.0a") && !reached("7.0") && !reached("10.1"));
    assert!(kit(None).reaches("7.0".parse().expect("a capability")));
    assert_eq!(
        lent().route(&["7.0".to_owned()]),
        "CUDA 12.6: front end of nvcc 13.0 with the headers and the assembler of 12.6; no code for 7.0, which takes \
         an installed nvcc 12.6"
    );
    assert_eq!(kit(None).route(&[]), "CUDA 12.6: nvcc 12.6 from wheels");
}
