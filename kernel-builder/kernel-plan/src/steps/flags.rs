//! The question to nvcc.
//!
//! Owns: which flags are left out of it, and which make it pointless. Never: judges any other flag.

use super::{NvccFallback, UNIT};
use crate::plan::CommandLine;

/// Flags that say how nvcc works, not what it makes, with how many words follow them.
const LEFT_OUT: &[(&str, usize)] = &[
    ("-MD", 0),
    ("-MMD", 0),
    ("-MP", 0),
    ("--generate-dependencies-with-compile", 0),
    ("--generate-nonsystem-dependencies-with-compile", 0),
    ("--generate-dependency-targets", 0),
    ("-MF", 1),
    ("--dependency-output", 1),
    ("--threads", 1),
    ("-t", 1),
    ("--split-compile", 1),
    ("-split-compile", 1),
    ("-objtemp", 0),
    ("--objdir-as-tempdir", 0),
];

/// Flags with which the object is not the sum of these steps, or files are made beside it.
const OF_NVCC: &[&str] = &[
    "-rdc",
    "--relocatable-device-code",
    "-dc",
    "--device-c",
    "-dw",
    "--device-w",
    "-dlto",
    "--dlink-time-opt",
    "-gen-opt-lto",
    "-keep",
    "--keep",
    "-save-temps",
    "--save-temps",
    "-keep-dir",
    "--keep-dir",
    "-ptx",
    "--ptx",
    "-cubin",
    "--cubin",
    "-fatbin",
    "--fatbin",
    "-optix-ir",
    "--optix-ir",
    "-time",
    "--time",
    "-fdevice-time-trace",
    "--fdevice-time-trace",
    "-optf",
    "--options-file",
    "-dryrun",
    "--dryrun",
];

/// The command that makes nvcc print the steps of `command`, which makes the object [`UNIT`] in them.
///
/// # Errors
/// A flag is nvcc's alone.
pub fn question(command: &CommandLine) -> Result<CommandLine, NvccFallback> {
    let mut asked = CommandLine { args: Vec::new(), ..command.clone() }.arg("--dryrun").arg("-objtemp");
    let mut given = command.args.iter();
    while let Some(arg) = given.next() {
        let (name, value) =
            arg.split_once('=').map_or((arg.as_str(), None), |(name, value)| (name, Some(value)));
        let off = matches!(value, Some("false"));
        if OF_NVCC.contains(&name) && !off {
            return Err(NvccFallback::Flag(arg.clone()));
        }
        if let Some((_, words)) = LEFT_OUT.iter().find(|(flag, _)| *flag == name) {
            for _ in 0..if value.is_some() { 0 } else { *words } {
                given.next();
            }
        } else if arg == "-o" {
            given.next();
            asked.args.extend([arg.clone(), UNIT.to_owned()]);
        } else {
            asked.args.push(arg.clone());
        }
    }
    Ok(asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(args: &str) -> Result<String, NvccFallback> {
        question(&CommandLine::new("nvcc").args(args.split(' '))).map(|line| line.args.join(" "))
    }

    #[test]
    fn how_is_left_out_and_what_is_kept() {
        let kept = "--use_fast_math -maxrregcount 64 -Xptxas=-v -lineinfo -c a.cu -o";
        let given = format!("-t 4 --threads=2 -MD -MF a.d {kept} a.o");
        assert_eq!(asked(&given).unwrap(), format!("--dryrun -objtemp {kept} unit.o"));
    }

    #[test]
    fn what_changes_the_object_is_for_nvcc() {
        assert_eq!(asked("-rdc=true -c a.cu"), Err(NvccFallback::Flag("-rdc=true".to_owned())));
        assert_eq!(asked("--keep -c a.cu"), Err(NvccFallback::Flag("--keep".to_owned())));
        assert!(asked("-rdc=false -c a.cu").is_ok());
    }
}
