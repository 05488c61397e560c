//! A project of a function that no template serves: its translation, in the form of a template.
//!
//! Owns: which files it has. Never: translates; `kernel_plan::translate` does.

use kernel_plan::translate::{self, Element, Emitted, Part, Plan, Program, Project, Refusal, Traced};

use super::ScaffoldError;
use super::report::{Gradient, Translation, Untranslated};
use super::template::{self, Sources, Template};

/// What the kernels of a translation are there for.
const CONTRACT: &str = "\
The kernels of plan.md, with [let], [tune] and [launch] of op.toml. They are right and plain: replace them by any that compute what
reference.py says, for all lengths that the axes allow.";
/// How a template of a translation is called.
const NAME: &str = "translation";
/// The parts that every translation uses: the file of `_shared`, the backend.
const SHARED: [(&str, &str); 7] = [
    ("each_isa.h", "cpu"),
    ("select.h", "cpu"),
    ("steps.h", "cpu"),
    ("vectors.h", "cpu"),
    ("steps.cuh", "cuda"),
    ("team.cuh", "cuda"),
    ("vector.cuh", "cuda"),
];

/// A translated function.
#[derive(Debug, Clone)]
pub struct Translated {
    /// The function or class.
    pub function: String,
    /// The operation.
    pub op: String,
    /// The program.
    pub program: Program,
    /// The kernels.
    pub plan: Plan,
    /// What a person should know.
    pub notes: Vec<String>,
    reference: String,
    gradient: Option<GradientProject>,
    /// The text of reference.py.
    text: String,
}

/// The gradient of a translated function.
#[derive(Debug, Clone)]
struct GradientProject {
    /// The operation.
    op: String,
    program: Program,
    plan: Plan,
    reference: String,
    /// Inputs of the function that have one.
    inputs: Vec<String>,
    /// Those whose gradient is that of another one.
    same: Vec<(String, String)>,
}

impl GradientProject {
    fn lower(gradient: &Gradient, of: &Traced, op: &str) -> Result<Self, Refusal> {
        let program = translate::lower_gradient(&gradient.graph, of)?;
        let plan = translate::plan(&program)?;
        Ok(Self {
            op: format!("{op}_backward"),
            program,
            plan,
            reference: gradient.reference.function.clone(),
            inputs: gradient.inputs.clone(),
            same: gradient.same.iter().map(|(name, twin)| (name.clone(), twin.clone())).collect(),
        })
    }

    /// Tensors of the call that the gradient is computed from.
    fn kept_names(&self) -> impl Iterator<Item = &str> {
        let names = self.program.inputs.iter().map(|input| input.name.as_str());
        names.filter(|name| !name.starts_with("grad_"))
    }

    fn emitted(&self, module: &str, file: &str) -> Result<Emitted, Refusal> {
        let project = Project {
            module: module.to_owned(),
            op: self.op.clone(),
            file: file.to_owned(),
            reference: self.reference.clone(),
            part: Part::Gradient,
        };
        translate::emit(&self.program, &self.plan, &project)
    }
}

/// Why there is none: the words, and what may help.
#[derive(Debug, Clone)]
pub struct Untranslatable {
    /// What is in the way, with the operator and its line.
    pub what: String,
    /// What may help.
    pub help: Option<&'static str>,
}

/// Translates a function; `text` is the person's file.
///
/// # Errors
/// What of it has no translation.
pub fn translate(translation: &Translation, text: &str) -> Result<Translated, Untranslatable> {
    let mut program = translate::lower(&translation.graph)?;
    let plan = translate::plan(&program)?;
    let function = translation.graph.function.clone();
    let op = operation(&function);
    let (mut gradient, why) = gradient(translation, &op);
    if let Some(gradient) = &mut gradient {
        translate::agree((&mut program, &plan), (&mut gradient.program, &gradient.plan));
    }
    let mut text = format!("{text}{}", translation.reference.text);
    if gradient.is_some() {
        text.extend(translation.gradient.iter().map(|gradient| gradient.reference.text.as_str()));
    }
    let mut notes = notes(translation, &program, &plan);
    notes.push(match (&gradient, why) {
        (Some(gradient), _) => {
            let kept: Vec<&str> = gradient.kept_names().collect();
            format!(
                "gradients of {}: {} kernel{}, from {}, which a call keeps for them",
                gradient.inputs.join(", "),
                gradient.plan.kernels.len(),
                if gradient.plan.kernels.len() == 1 { "" } else { "s" },
                if kept.is_empty() { "nothing".to_owned() } else { kept.join(", ") }
            )
        }
        (None, why) => format!("no gradient: {why}; call the kernel under `torch.no_grad()`"),
    });
    let reference = translation.reference.function.clone();
    let translated = Translated { op, function, notes, reference, gradient, text, program, plan };
    // What op.toml cannot say is found here, before anything is asked of anybody.
    translated.emitted("module", "reference.py")?;
    Ok(translated)
}

/// The translation of the gradient, or why there is none.
fn gradient(translation: &Translation, op: &str) -> (Option<GradientProject>, String) {
    let Some(gradient) = &translation.gradient else {
        return (None, translation.ungraded.clone().unwrap_or_default());
    };
    let graded = GradientProject::lower(gradient, &translation.graph, op);
    match graded.and_then(|graded| graded.emitted("module", "reference.py").map(|_| graded)) {
        Ok(graded) => (Some(graded), String::new()),
        Err(refusal) => (None, Untranslatable::from(refusal).what),
    }
}

impl Translated {
    fn emitted(&self, module: &str, file: &str) -> Result<Emitted, Refusal> {
        let project = Project {
            module: module.to_owned(),
            op: self.op.clone(),
            file: file.to_owned(),
            reference: self.reference.clone(),
            part: match &self.gradient {
                None => Part::Alone,
                Some(gradient) => {
                    Part::Differentiable { inputs: gradient.inputs.clone(), same: gradient.same.clone() }
                }
            },
        };
        translate::emit(&self.program, &self.plan, &project)
    }

    /// The project as a template, for a module of this name.
    ///
    /// # Errors
    /// A defect of the program.
    pub fn template(&self, module: &str) -> Result<Template, ScaffoldError> {
        let defect =
            |refusal: Refusal| ScaffoldError::Claim { template: NAME.to_owned(), what: refusal.what };
        let emitted = self.emitted(module, "reference.py").map_err(defect)?;
        let mut files = Sources::new();
        let mut put = |path: String, text: String| files.insert(path, text.into_bytes());
        let mut plan = emitted.plan.clone();
        let mut parts = vec![("op.toml", &self.op, emitted)];
        if let Some(gradient) = &self.gradient {
            let emitted = gradient.emitted(module, "reference.py").map_err(defect)?;
            plan += &format!("\n{}", emitted.plan);
            parts.push(("backward.toml", &gradient.op, emitted));
        }
        for (file, op, emitted) in parts {
            put(file.to_owned(), emitted.op);
            put(format!("{module}_cuda/{op}.cuh"), emitted.cuda);
            put(format!("{module}_cpu/{op}.cpp"), emitted.cpu);
            put(format!("{module}_cpu/{op}_body.h"), emitted.body);
        }
        put("plan.md".to_owned(), plan);
        put("reference.py".to_owned(), self.text.clone());
        put("template.toml".to_owned(), self.manifest(module));
        template::from_sources(NAME, files)
    }

    fn manifest(&self, module: &str) -> String {
        let mut text = format!(
            "name = \"{NAME}\"\ndescription = \"A translation\"\nops = [\"{}\"]\nbackends = [\"cpu\", \"cuda\"]\n",
            self.op
        );
        for backend in ["cuda", "cpu"] {
            text += &format!("\n[[when]]\nbackend = \"{backend}\"\npaths = [\"{module}_{backend}\"]\n");
        }
        text += "\n[[hole]]\nname = \"kernel\"\nkind = \"kernel\"\ncheck = \"verify --device\"\ncontract = \"\"\"\n";
        text += &format!("{CONTRACT}\n\"\"\"\n");
        for (file, backend) in SHARED {
            text +=
                &format!("\n[[shared]]\nfrom = \"{backend}/{file}\"\nto = \"{module}_{backend}/{file}\"\n");
        }
        text
    }

    /// The kernels, a line each.
    pub fn table(&self) -> Vec<String> {
        let kernels = self.plan.kernels.iter().zip(self.plan.bytes(&self.program)).enumerate();
        kernels
            .map(|(number, (kernel, bytes))| {
                let (read, written) = self.plan.moved(kernel);
                let list = |all: &[translate::Buffer]| {
                    let names = all.iter().map(|one| self.plan.name(&self.program, *one));
                    names.collect::<Vec<_>>().join(", ")
                };
                format!(
                    "kernel {number}: {}, reads {}, writes {}, {bytes} bytes",
                    kernel.form().words(),
                    list(&read),
                    list(&written)
                )
            })
            .collect()
    }
}

fn notes(translation: &Translation, program: &Program, plan: &Plan) -> Vec<String> {
    let mut notes = Vec::new();
    if !translation.guessed.is_empty() {
        let shapes: Vec<String> = program
            .inputs
            .iter()
            .map(|input| {
                let lengths: Vec<String> = input.shape.iter().map(ToString::to_string).collect();
                format!("{} [{}]", input.name, lengths.join(", "))
            })
            .collect();
        notes.push(format!(
            "shapes were guessed: {}; `example_inputs()` in your file says others",
            shapes.join(", ")
        ));
    }
    if !translation.dynamic {
        notes.push("lengths are those of the example: torch.export makes no graph for others".to_owned());
    }
    if program.inputs.iter().all(|input| input.element == Element::Variable) {
        notes.push("tensors are all bf16, all f16 or all f32".to_owned());
    }
    if plan.kernels.len() > 1 {
        notes.push("on the CPU several kernels run on one thread".to_owned());
    }
    notes
}

/// Functions of the C library, and words of C++: the generated code has a function of the operation's name.
const TAKEN: &str = "\
abs acos acosh and asin asinh atan atan2 atanh auto bool cbrt ceil char class copysign cos cosh default delete div do \
double else enum erf erfc exp exp2 expm1 fabs fdim float floor fma fmax fmin fmod for free frexp hypot if ilogb index int \
labs ldexp lgamma log log10 log1p log2 logb long malloc modf namespace new nextafter not operator or out pow private \
public remainder return rint round scalbn select short signed sin sinh sqrt static struct switch tan tanh template tgamma \
this time trunc try union unsigned using void while xor";

/// The name of the operation of a function.
fn operation(function: &str) -> String {
    let name = snake(function);
    if TAKEN.split_whitespace().any(|taken| taken == name) { format!("{name}_op") } else { name }
}

/// `RmsNorm` as `rms_norm`.
fn snake(name: &str) -> String {
    let mut text = String::new();
    for (place, letter) in name.chars().enumerate() {
        if letter.is_ascii_uppercase() && place > 0 && !text.ends_with('_') {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text.trim_matches('_').to_owned()
}

/// The words of what is in the way.
fn words(what: &str, op: Option<&str>, line: Option<u32>, text: Option<&str>) -> String {
    let op = op.map(|op| format!("`{}`", op.trim_start_matches("aten.")));
    let place =
        line.map(|line| format!("line {line}{}", text.map(|text| format!(", `{text}`")).unwrap_or_default()));
    match (op, place) {
        (Some(op), Some(place)) => format!("{op} in {place}: {what}"),
        (Some(op), None) => format!("{op}: {what}"),
        (None, Some(place)) => format!("{place}: {what}"),
        (None, None) => what.to_owned(),
    }
}

impl From<Refusal> for Untranslatable {
    fn from(refusal: Refusal) -> Self {
        let Refusal { what, op, line, text, help, .. } = refusal;
        Self { what: words(&what, op.as_deref(), line, text.as_deref()), help }
    }
}

impl From<&Untranslated> for Untranslatable {
    fn from(untranslated: &Untranslated) -> Self {
        let Untranslated { what, op, line, text } = untranslated;
        Self { what: words(what, op.as_deref(), *line, text.as_deref()), help: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_operator_and_its_line() {
        let text = words("it has no translation", Some("aten.mm.default"), Some(7), Some("return a @ b"));
        assert_eq!(text, "`mm.default` in line 7, `return a @ b`: it has no translation");
        assert_eq!(words("why", None, None, None), "why");
    }

    #[test]
    fn classes_become_functions() {
        assert_eq!(snake("RmsNorm"), "rms_norm");
        assert_eq!(operation("gelu_new"), "gelu_new");
        assert_eq!(operation("tanh"), "tanh_op");
    }
}
