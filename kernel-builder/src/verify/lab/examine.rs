//! What the judging process starts to compare what calls left, and what its numbers mean.
//!
//! Owns: the judge's own kernels, their arguments, the words for what they find. Never: reads a candidate's code.

use kernel_plan::units::Dtype;

use super::super::bound::Numbers;
use super::super::compare::row_length;
use super::super::schedule::{ScheduledCase, TensorSpec};
use super::CandidateRefusal;
use super::layout::{Layout, Range};
use super::pool::SetBuffers;
use crate::device::wire::{Argument, Call, Kernel, Place, Start, unhex};

/// The number of the judge's machine code in its worker.
pub(super) const MODULE: u32 = 0;
/// Where the numbers of comparisons go.
pub(super) const VERDICTS: u32 = 2;
/// Bytes of one of them: four numbers of 64 bits.
pub(super) const VERDICT: u64 = 32;
/// Threads of a block, and blocks that fill any device.
const BLOCK: u32 = 256;
const BLOCKS: u64 = 2048;

/// The judge's kernels, beside `judge::compare` for each dtype: their places come after those.
const PLAIN: [&str; 3] = ["judge::same", "judge::only", "judge::touch"];

/// The kernels as C++ names them.
pub(super) fn expressions() -> Vec<String> {
    let compare = Dtype::ALL.iter().map(|dtype| format!("judge::compare<{}>", type_of(*dtype)));
    compare.chain(PLAIN.map(str::to_owned)).collect()
}

/// A truth is compared as the byte that it is.
fn type_of(dtype: Dtype) -> &'static str {
    if dtype == Dtype::Bool { "unsigned char" } else { dtype.cuda_name() }
}

fn place_of(name: &str) -> u32 {
    let after = PLAIN.iter().position(|plain| *plain == name).unwrap_or_default();
    (Dtype::ALL.len() + after) as u32
}

fn kernel(function: u32, work: u64, arguments: Vec<Argument>) -> Start {
    let blocks = work.div_ceil(u64::from(BLOCK)).clamp(1, BLOCKS) as u32;
    Start::Kernel(Kernel {
        module: MODULE,
        function,
        grid: [blocks, 1, 1],
        block: [BLOCK, 1, 1],
        cluster: None,
        shared: 0,
        carveout: None,
        cooperative: false,
        arguments,
    })
}

/// Reads a range into the cache.
pub(crate) fn touch(module: u32, function: u32, at: Place, bytes: u64, sink: Place) -> Start {
    let arguments =
        vec![Argument::Pointer(at), Argument::I64((bytes / 16).cast_signed()), Argument::Pointer(sink)];
    match kernel(function, bytes / 16, arguments) {
        Start::Kernel(kernel) => Start::Kernel(Kernel { module, ..kernel }),
        other => other,
    }
}

/// The place of the kernel that reads a range among [`expressions`].
pub(super) fn touch_function() -> u32 {
    place_of("judge::touch")
}

/// What one comparison is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    /// An output of a slot, by its place in the case.
    Output { slot: usize, place: usize },
    /// An input of a slot.
    Input { slot: usize, place: usize },
    /// What lies between tensors.
    Gap(Range),
}

/// The comparisons after calls whose slots held these sets.
pub(super) struct Examination {
    /// What is started.
    pub(super) call: Call,
    about: Vec<Comparison>,
}

/// Everything that is compared: outputs, inputs that no output overwrites, and gaps.
pub(super) fn examination(
    case: &ScheduledCase,
    layout: &Layout,
    known: &[SetBuffers],
    bounds: &[Numbers],
    assignment: &[usize],
    poison: u8,
) -> Examination {
    let (mut call, mut about) = (Call::new(), Vec::new());
    let mut verdict = |subject| {
        let place = Place { buffer: VERDICTS, offset: about.len() as u64 * VERDICT };
        about.push(subject);
        Argument::Pointer(place)
    };
    for (slot, (tensors, set)) in layout.slots.iter().zip(assignment).enumerate() {
        let known = &known[*set];
        let mut own = tensors.own.iter();
        for (place, output) in case.outputs.iter().enumerate() {
            let range = match output.inplace {
                Some(input) => tensors.inputs[input],
                None => own.next().copied(),
            };
            let Some(range) = range.filter(|range| range.bytes > 0) else { continue };
            let expected = known.outputs[place];
            let stale = if output.inplace.is_some() { -1 } else { i32::from(poison) };
            let arguments = compared(output, range, expected.exact, expected.terms, &bounds[place], stale);
            let arguments =
                arguments.into_iter().chain([verdict(Comparison::Output { slot, place })]).collect();
            let function = Dtype::ALL.iter().position(|dtype| *dtype == output.dtype).unwrap_or_default();
            call.push(kernel(function as u32, output.elements() as u64, arguments));
        }
        for (place, (input, kept)) in tensors.inputs.iter().zip(&known.inputs).enumerate() {
            let (Some(range), Some(kept)) = (input, kept) else { continue };
            if range.bytes > 0 && !case.overwrites(place) {
                let arguments = vec![
                    Argument::Pointer(range.place()),
                    Argument::Pointer(*kept),
                    Argument::I64(range.bytes.cast_signed()),
                    verdict(Comparison::Input { slot, place }),
                ];
                call.push(kernel(place_of("judge::same"), range.bytes / 16, arguments));
            }
        }
    }
    for gap in &layout.gaps {
        let arguments = vec![
            Argument::Pointer(gap.place()),
            Argument::I64(gap.bytes.cast_signed()),
            Argument::I32(i32::from(poison)),
            verdict(Comparison::Gap(*gap)),
        ];
        call.push(kernel(place_of("judge::only"), gap.bytes, arguments));
    }
    Examination { call, about }
}

fn compared(
    output: &TensorSpec,
    range: Range,
    exact: Place,
    terms: Place,
    bound: &Numbers,
    poison: i32,
) -> Vec<Argument> {
    let number = |value: f64| Argument::F64(value.to_bits());
    vec![
        Argument::Pointer(range.place()),
        Argument::Pointer(exact),
        Argument::Pointer(terms),
        Argument::I64(output.elements() as i64),
        Argument::I64(row_length(output) as i64),
        Argument::I32(poison),
        number(bound.rounding),
        number(bound.accumulation),
        number(bound.unit),
        number(bound.smallest),
        number(bound.largest),
        number(bound.overflow),
        Argument::I32(i32::from(bound.has_infinity)),
    ]
}

impl Examination {
    /// Bytes of all its numbers.
    pub(super) fn bytes(&self) -> u64 {
        self.about.len() as u64 * VERDICT
    }

    /// The largest error as a share of the bound, or the gravest thing that is wrong: guards, inputs, then values.
    pub(super) fn read(&self, case: &ScheduledCase, numbers: &str) -> Result<f64, CandidateRefusal> {
        let bytes = unhex(numbers).unwrap_or_default();
        let mut words = bytes
            .chunks_exact(8)
            .map(|word| word.iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte)));
        let mut next = || words.next().unwrap_or_default();
        let (mut share, mut worst) = (0f64, None::<(u32, CandidateRefusal)>);
        for about in &self.about {
            let [wrong, unwritten, first, largest] = [next(), next(), next(), next()];
            share = share.max(f64::from_bits(largest));
            if wrong == 0 {
                continue;
            }
            let (rank, code, text) = words_for(about, case, wrong, unwritten, !first);
            if worst.as_ref().is_none_or(|(known, _)| rank < *known) {
                worst = Some((rank, CandidateRefusal { code, text }));
            }
        }
        worst.map_or(Ok(share), |(_, complaint)| Err(complaint))
    }
}

fn words_for(
    about: &Comparison,
    case: &ScheduledCase,
    wrong: u64,
    unwritten: u64,
    first: u64,
) -> (u32, &'static str, String) {
    match about {
        Comparison::Gap(gap) => {
            let text = format!(
                "{wrong} bytes between tensors were written, the first {first} bytes into a gap of {}",
                gap.bytes
            );
            (0, "verify::guard", text)
        }
        Comparison::Input { slot, place } => {
            let name = &case.inputs[*place].name;
            (
                1,
                "verify::input_changed",
                format!("the input `{name}` of call {slot} was written, at byte {first}"),
            )
        }
        Comparison::Output { slot, place } => {
            let output = &case.outputs[*place];
            let (name, elements) = (&output.name, output.elements());
            if unwritten > 0 {
                let text = format!(
                    "{unwritten} of {elements} elements of `{name}` of call {slot} still hold what was there before"
                );
                return (2, "verify::unwritten", text);
            }
            let text = format!(
                "{wrong} of {elements} elements of `{name}` of call {slot} are off, the first is number {first}"
            );
            (3, "verify::numerics", text)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kernel_plan::plan::CommandLine;

    use super::*;
    use crate::base::digest::hex;
    use crate::base::process::{self, Limits};
    use crate::base::{env, files};
    use crate::verify::bound::Bound;

    fn case() -> ScheduledCase {
        let tensor = |name: &str| TensorSpec {
            name: name.to_owned(),
            shape: vec![8],
            dtype: Dtype::F32,
            omitted: false,
            inplace: None,
            computed: None,
            seed: false,
            non_negative: false,
        };
        ScheduledCase {
            id: "case".to_owned(),
            place: 0,
            inputs: vec![tensor("x")],
            outputs: vec![tensor("y")],
            gradients: vec![],
            held_out: false,
            drawn: false,
            accumulated: 1,
            sets: vec![],
            trials: vec![],
        }
    }

    fn read(numbers: &[[u64; 4]]) -> Result<f64, CandidateRefusal> {
        let about = vec![
            Comparison::Output { slot: 0, place: 0 },
            Comparison::Input { slot: 0, place: 0 },
            Comparison::Gap(Range { offset: 0, bytes: 16384 }),
        ];
        let bytes: Vec<u8> = numbers.iter().flatten().flat_map(|number| number.to_le_bytes()).collect();
        Examination { call: vec![], about }.read(&case(), &hex(&bytes))
    }

    #[test]
    fn the_gravest_finding_is_told() {
        let fine = [0, 0, 0, 0.25f64.to_bits()];
        assert_eq!(read(&[fine, [0; 4], [0; 4]]), Ok(0.25));
        let wrong = [3, 0, !5, 0];
        assert_eq!(read(&[wrong, [0; 4], [0; 4]]).unwrap_err().code, "verify::numerics");
        assert!(read(&[wrong, [0; 4], [0; 4]]).unwrap_err().text.ends_with("the first is number 5"));
        assert_eq!(read(&[[8, 2, !0, 0], [0; 4], [0; 4]]).unwrap_err().code, "verify::unwritten");
        assert_eq!(read(&[wrong, [1, 0, !4, 0], [0; 4]]).unwrap_err().code, "verify::input_changed");
        assert_eq!(read(&[wrong, [1, 0, !4, 0], [1, 0, !9, 0]]).unwrap_err().code, "verify::guard");
    }

    /// What `bound.cuh` admits, compiled for this machine: one line for each line of bound and values.
    fn admitted_by_the_kernel(lines: &[String]) -> Vec<bool> {
        const MAIN: &str = r#"
            int main() {
                Bound b;
                double computed, exact, terms;
                while (scanf("%lf %lf %lf %lf %lf %lf %d %lf %lf %lf", &b.rounding, &b.accumulation, &b.unit, &b.smallest,
                             &b.largest, &b.overflow, &b.has_infinity, &computed, &exact, &terms) == 10) {
                    puts(admits(b, computed, exact, terms) ? "1" : "0");
                }
            }"#;
        const BEFORE: &str =
            "#include <cmath>\n#include <cstdio>\nusing namespace std;\n#define __device__\n";
        let folder = files::scratch().unwrap();
        let (source, program) = (folder.path().join("bound.cpp"), folder.path().join("bound"));
        let text = format!("{BEFORE}{}{MAIN}", include_str!("../../../resources/judge/bound.cuh"));
        files::write(&source, text).unwrap();
        let compiler = env::text(env::CXX).unwrap_or_else(|| "c++".to_owned());
        let line = CommandLine::new(compiler).arg("-o").path(&program).path(&source);
        let built = process::run(&line, Limits::wall(Duration::from_secs(60))).unwrap();
        assert!(built.ending.success(), "{}", built.stderr_text());
        let mut answers = Vec::new();
        let input = lines.join("\n");
        let limits = Limits::wall(Duration::from_secs(60));
        process::converse(&CommandLine::new(&program), limits, input.as_bytes(), &mut |line| {
            answers.push(line == "1")
        })
        .unwrap();
        answers
    }

    #[test]
    fn the_kernel_admits_what_the_bound_admits() {
        let values = [
            0.0,
            -0.0,
            1.0,
            1.06,
            1.124,
            -1.0,
            440.0,
            448.0,
            463.0,
            465.0,
            -448.0,
            57344.0,
            61439.0,
            61441.0,
            65504.0,
            7e4,
            1e6,
            -1e6,
            3.4e38,
            1e39,
            2f64.powi(-26),
            2f64.powi(-23),
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
        ];
        let (mut lines, mut expected) = (Vec::new(), Vec::new());
        for dtype in
            [Dtype::F8e4m3, Dtype::F8e5m2, Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::F64, Dtype::I32]
        {
            let bound = Bound::new(dtype, Dtype::F32, 1, 64);
            let Numbers { rounding, accumulation, unit, smallest, largest, overflow, has_infinity } =
                bound.numbers();
            for terms in [0.0, 1.0, 300.0] {
                for computed in values {
                    for exact in values {
                        let infinity = i32::from(has_infinity);
                        lines.push(format!(
                            "{rounding:e} {accumulation:e} {unit:e} {smallest:e} {largest:e} {overflow:e} {infinity} \
                             {computed:e} {exact:e} {terms:e}"
                        ));
                        expected.push(bound.admits(computed, exact, terms));
                    }
                }
            }
        }
        let found = admitted_by_the_kernel(&lines);
        assert_eq!(found.len(), expected.len());
        let different: Vec<_> =
            lines.iter().zip(expected.iter().zip(&found)).filter(|(_, (one, other))| one != other).collect();
        assert!(different.is_empty(), "{different:?}");
        assert!(expected.contains(&true) && expected.contains(&false));
    }

    #[test]
    fn every_kernel_is_named_once() {
        let names = expressions();
        assert_eq!(names.len(), Dtype::ALL.len() + PLAIN.len());
        assert_eq!(names[touch_function() as usize], "judge::touch");
        for name in &names {
            let plain = name.split('<').next().unwrap_or_default().trim_start_matches("judge::");
            assert!(super::super::begin::SOURCE.contains(&format!("__global__ void {plain}(")), "{name}");
        }
    }
}
