//! The two phases of cicc: the C++ front end, which reads the text, and the code generator, which knows the GPU.
//!
//! Of texts that are equal the front end makes equal bit code, so it runs once for them; the code generator runs for each
//! architecture and makes of the bit code what cicc would have made of the text.
//!
//! Owns: how cicc is asked for the commands of its phases. Never: maps a flag; cicc does.

use super::words;
use crate::plan::CommandLine;

/// The commands of both phases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phases {
    /// Text to bit code.
    pub front: CommandLine,
    /// The bit code's file.
    pub bitcode: String,
    /// Bit code to PTX.
    pub back: CommandLine,
}

/// The switch under which cicc prints its phases, and what must be in the environment for it.
const SHOW: [&str; 2] = ["-keep", "-v"];
const UNLOCK: (&str, &str) = ("NVVMCCWIZ", "553282");

/// The command that makes cicc print its phases while it compiles an empty text.
pub fn phases_question(cicc: &CommandLine) -> CommandLine {
    let mut asked = CommandLine { args: SHOW.map(str::to_owned).to_vec(), ..cicc.clone() };
    asked.args.extend(cicc.args.iter().cloned());
    asked.env(UNLOCK.0, UNLOCK.1)
}

/// Reads the answer; nothing when it has another shape.
pub fn read_phases(said: &str, cicc: &CommandLine) -> Option<Phases> {
    let command = |phase: &str| {
        let line =
            said.lines().map(words::split).find(|line| line.get(1).is_some_and(|word| word == phase))?;
        let args = line.into_iter().skip(1).filter(|word| !SHOW.contains(&word.as_str()));
        Some(CommandLine { args: args.collect(), ..cicc.clone() })
    };
    let front = command("-lgenfe")?;
    let back = command("-libnvvm")?;
    let bitcode = output(&front)?.to_owned();
    let reads = back.args.get(1).is_some_and(|input| *input == bitcode);
    (reads && output(&back) == output(cicc)).then_some(Phases { front, bitcode, back })
}

/// The word after `-o`.
pub(super) fn output(command: &CommandLine) -> Option<&str> {
    let at = command.args.iter().position(|arg| arg == "-o")?;
    command.args.get(at + 1).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = r#""/tk/nvvm/bin/cicc" -lgenfe "unit.o.compute_80.cpp1.ii" -o "unit.o.compute_80.lgenfe.bc" --emit-llvm-bc --c++17 --nv_arch compute_80
"/tk/nvvm/bin/cicc" -libnvvm "unit.o.compute_80.lgenfe.bc" -o "unit.o.compute_80.ptx" -ftz=0 -arch=compute_80 -keep -v
[ "/tk/nvvm/bin/cicc" -lnk "unit.o.compute_80.lgenfe.bc" -o "unit.o.compute_80.lnk.bc" ]
"#;

    fn whole() -> CommandLine {
        CommandLine::new("/tk/nvvm/bin/cicc")
            .args("--c++17 -arch compute_80 unit.o.compute_80.cpp1.ii -o unit.o.compute_80.ptx".split(' '))
    }

    #[test]
    fn both_phases_are_read() {
        let phases = read_phases(SAID, &whole()).unwrap();
        assert_eq!(phases.bitcode, "unit.o.compute_80.lgenfe.bc");
        assert_eq!(
            phases.back.args.join(" "),
            "-libnvvm unit.o.compute_80.lgenfe.bc -o unit.o.compute_80.ptx -ftz=0 -arch=compute_80"
        );
        assert!(phases.front.args.ends_with(&["--nv_arch".to_owned(), "compute_80".to_owned()]));
    }

    #[test]
    fn an_answer_of_another_shape_is_none() {
        assert_eq!(read_phases("", &whole()), None);
        assert_eq!(read_phases(&SAID.replace("-libnvvm", "-other"), &whole()), None);
        assert_eq!(read_phases(&SAID.replace("80.ptx", "80.s"), &whole()), None);
    }
}
