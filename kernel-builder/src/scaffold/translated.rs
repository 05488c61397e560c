//! A project of a function that no template serves: its translation, in the form of a template.
//!
//! Owns: which files it has. Never: translates; `kernel_plan::translate` does.

use kernel_plan::translate::{
    self, Choices, Division, Element, Emitted, FixedAxis, Part, Plan, Program, Project, Refusal, TracedGraph,
    Whole,
};

use kernel_plan::spec::op::Values;

use super::ScaffoldError;
use super::operation_name::operation;
use super::report::{Gradient, Translation, Untranslated};
use super::template::{self, Sources, Template};

/// The contract of the kernels of a translation.
const CONTRACT: &str = "\
The kernels of plan.md, with [let], [tune] and [launch] of op.toml. They are right and plain: replace them by any that compute what
reference.py says, for all lengths that the axes allow.";
/// The files that the repository of the project ignores, as in templates.
const IGNORED: &str = include_str!("../../../templates/blank/.gitignore");
/// The help if an axis would get the length of an example, and there is none.
const GUESSED: &str = "define `example_inputs()` in your file with the lengths that you call it with: the kernel is then for these";
/// The name of a template of a translation.
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
    /// The resulting form.
    pub form: Form,
    /// Notes for the user.
    pub notes: Vec<String>,
    reference: String,
    /// The text of reference.py.
    text: String,
}

/// The form of a translated function.
#[derive(Debug, Clone)]
pub enum Form {
    /// Kernels alone, with those of its gradient.
    Kernels(Box<Kernels>),
    /// Kernels of regions, and operators of PyTorch between them.
    Parts(Box<Division>),
}

/// A function that is translated as a whole.
#[derive(Debug, Clone)]
pub struct Kernels {
    program: Program,
    plan: Plan,
    gradient: Option<GradientProject>,
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
    fn lower(gradient: &Gradient, of: &TracedGraph, op: &str, choices: &Choices) -> Result<Self, Refusal> {
        let program = translate::lower_gradient(&gradient.graph, of)?;
        let plan = translate::plan(&program, choices)?;
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
    /// The obstacle, with the operator and its line.
    pub what: String,
    /// The help, if there is one.
    pub help: Option<&'static str>,
}

/// Translates a function; `text` is the person's file. An axis that a computed length depends on gets the length of the
/// example, for all calls.
///
/// # Errors
/// A part of the function has no translation, or a choice names an unknown step or one that cannot be fused.
pub fn translate(
    translation: &Translation,
    text: &str,
    choices: &Choices,
) -> Result<Translated, Untranslatable> {
    let mut translation = translation.clone();
    let mut fixed: Vec<FixedAxis> = Vec::new();
    loop {
        let refusal = match attempt(&translation, text, choices) {
            Ok(mut translated) => {
                let note = |one: &FixedAxis| format!("{} is always {}: {}", one.axis, one.length, one.reason);
                translated.notes.extend(fixed.iter().map(note));
                return Ok(translated);
            }
            Err(refusal) => refusal,
        };
        match FixedAxis::after(&refusal, &translation.graph) {
            // A length that was guessed is none that anybody calls.
            Some(_) if !translation.guessed.is_empty() => {
                return Err(Untranslatable { help: Some(GUESSED), ..Untranslatable::from(refusal) });
            }
            Some(axis) => {
                translation.graph.fix(&axis);
                translation.gradient.iter_mut().for_each(|gradient| gradient.graph.fix(&axis));
                fixed.push(axis);
            }
            None => return Err(refusal.into()),
        }
    }
}

fn attempt(translation: &Translation, text: &str, choices: &Choices) -> Result<Translated, Refusal> {
    let planned = translate::lower(&translation.graph)
        .and_then(|program| translate::plan(&program, choices).map(|plan| (program, plan)));
    let (mut program, plan) = match planned {
        Ok(planned) => planned,
        Err(refusal) => return in_parts(translation, text, refusal, choices),
    };
    let function = translation.graph.function.clone();
    let op = operation(&function);
    let (mut gradient, why) = gradient(translation, &op, choices);
    let mut programs = vec![&program];
    programs.extend(gradient.iter().map(|gradient| &gradient.program));
    are_known(choices, &programs)?;
    if let Some(gradient) = &mut gradient {
        translate::agree((&mut program, &plan), (&mut gradient.program, &gradient.plan));
    }
    let mut text = format!("{text}{}", translation.reference.text);
    if gradient.is_some() {
        text.extend(translation.gradient.iter().map(|gradient| gradient.reference.text.as_str()));
    }
    let mut notes = notes(translation, &program);
    if plan.kernels.len() > 1 {
        notes.push("on the CPU several kernels run on one thread".to_owned());
    }
    notes.push(match (&gradient, why) {
        (Some(gradient), _) => {
            let kept: Vec<&str> = gradient.kept_names().collect();
            format!(
                "gradients of {}: {} kernel{}, from {}, which a call saves for them",
                gradient.inputs.join(", "),
                gradient.plan.kernels.len(),
                if gradient.plan.kernels.len() == 1 { "" } else { "s" },
                if kept.is_empty() { "nothing".to_owned() } else { kept.join(", ") }
            )
        }
        (None, why) => format!("no gradient: {why}; call the kernel under `torch.no_grad()`"),
    });
    let reference = translation.reference.function.clone();
    let form = Form::Kernels(Box::new(Kernels { program, plan, gradient }));
    let translated = Translated { op, function, notes, reference, text, form };
    // A form that op.toml cannot describe is refused here, before any request.
    if let Form::Kernels(kernels) = &translated.form {
        translated.emitted(kernels, "module", "reference.py")?;
    }
    Ok(translated)
}

/// Operators without a translation stay those of PyTorch, and the regions around them are translated. `refusal` is why the function
/// has no translation as a whole.
fn in_parts(
    translation: &Translation,
    text: &str,
    refusal: Refusal,
    choices: &Choices,
) -> Result<Translated, Refusal> {
    let division = match translate::divide(&translation.graph, choices) {
        Ok(division) => division,
        // If nothing is left to translate, the operator is the reason; else it is the part that cannot stay.
        Err(other) if other.op.is_some() || other.wants_lengths() => return Err(other),
        Err(_) => return Err(refusal),
    };
    let programs: Vec<&Program> = division.regions.iter().map(|region| &region.program).collect();
    are_known(choices, &programs)?;
    let function = translation.graph.function.clone();
    let op = operation(&function);
    let mut notes = notes(translation, &division.shell);
    let stays: Vec<String> = division
        .stays()
        .into_iter()
        .map(|(op, line)| line.map_or_else(|| op.clone(), |line| format!("{op} (line {line})")))
        .collect();
    notes.push(format!("left to PyTorch: {}", stays.join(", ")));
    notes.push("no gradient: call the kernel under `torch.no_grad()`".to_owned());
    let text = format!("{text}{}", translation.reference.text);
    let reference = translation.reference.function.clone();
    let form = Form::Parts(Box::new(division));
    let mut translated = Translated { op, function, notes, reference, text, form };
    translated.text += &translated.whole("module", "reference.py")?.references;
    Ok(translated)
}

/// Refuses names of `--split` and `--fuse` that no program has.
fn are_known(choices: &Choices, programs: &[&Program]) -> Result<(), Refusal> {
    let unknown = choices.unknown(programs);
    if unknown.is_empty() {
        return Ok(());
    }
    let mut names: Vec<&str> = Vec::new();
    for name in programs.iter().flat_map(|program| translate::choosable(program)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    Err(Refusal::new(format!("it has no step called `{}`; its steps are: {known}", unknown.join("`, `"))))
}

/// The translation of the gradient, or why there is none.
fn gradient(translation: &Translation, op: &str, choices: &Choices) -> (Option<GradientProject>, String) {
    let Some(gradient) = &translation.gradient else {
        return (None, translation.ungraded.clone().unwrap_or_default());
    };
    let graded = GradientProject::lower(gradient, &translation.graph, op, choices);
    match graded.and_then(|graded| graded.emitted("module", "reference.py").map(|_| graded)) {
        Ok(graded) => (Some(graded), String::new()),
        Err(refusal) => (None, Untranslatable::from(refusal).what),
    }
}

impl Translated {
    fn project(&self, module: &str, file: &str, part: Part) -> Project {
        Project {
            module: module.to_owned(),
            op: self.op.clone(),
            file: file.to_owned(),
            reference: self.reference.clone(),
            part,
        }
    }

    fn whole(&self, module: &str, file: &str) -> Result<Whole, Refusal> {
        match &self.form {
            Form::Parts(division) => {
                translate::emit_whole(division, &self.project(module, file, Part::Alone))
            }
            Form::Kernels(_) => Err(Refusal::new("it is not split into parts")),
        }
    }

    /// The project as a template, for a module of this name.
    ///
    /// # Errors
    /// A defect of the program.
    pub fn template(&self, module: &str) -> Result<Template, ScaffoldError> {
        let defect =
            |refusal: Refusal| ScaffoldError::Claim { template: NAME.to_owned(), what: refusal.what };
        let mut files = Sources::new();
        let mut put = |path: String, text: String| files.insert(path, text.into_bytes());
        let mut parts: Vec<(String, String, Emitted)> = Vec::new();
        let mut plan = String::new();
        match &self.form {
            Form::Kernels(kernels) => {
                let emitted = self.emitted(kernels, module, "reference.py").map_err(defect)?;
                plan += &emitted.plan;
                parts.push(("op.toml".to_owned(), self.op.clone(), emitted));
                if let Some(gradient) = &kernels.gradient {
                    let emitted = gradient.emitted(module, "reference.py").map_err(defect)?;
                    plan += &format!("\n{}", emitted.plan);
                    parts.push(("backward.toml".to_owned(), gradient.op.clone(), emitted));
                }
            }
            Form::Parts(_) => {
                let whole = self.whole(module, "reference.py").map_err(defect)?;
                plan += &whole.plan;
                put("op.toml".to_owned(), whole.op);
                put(format!("{{{{ extension }}}}/{module}/_forward.py"), whole.forward);
                parts.extend(
                    whole.regions.into_iter().map(|(op, emitted)| (format!("{op}.toml"), op, emitted)),
                );
            }
        }
        for (file, op, emitted) in parts {
            put(file, emitted.op);
            put(format!("{module}_cuda/{op}.cuh"), emitted.cuda);
            put(format!("{module}_cpu/{op}.cpp"), emitted.cpu);
            put(format!("{module}_cpu/{op}_body.h"), emitted.body);
        }
        put(".gitignore".to_owned(), IGNORED.to_owned());
        put("plan.md".to_owned(), plan);
        put("reference.py".to_owned(), self.text.clone());
        put("template.toml".to_owned(), self.manifest(module));
        template::from_sources(NAME, files)
    }

    fn emitted(&self, kernels: &Kernels, module: &str, file: &str) -> Result<Emitted, Refusal> {
        let part = match &kernels.gradient {
            None => Part::Alone,
            Some(gradient) => {
                Part::Differentiable { inputs: gradient.inputs.clone(), same: gradient.same.clone() }
            }
        };
        translate::emit(&kernels.program, &kernels.plan, &self.project(module, file, part))
    }

    fn manifest(&self, module: &str) -> String {
        let mut text = format!(
            "name = \"{NAME}\"\ndescription = \"A translation\"\nops = [\"{}\"]\nbackends = [\"cpu\", \"cuda\"]\n",
            self.op
        );
        for backend in ["cuda", "cpu"] {
            text += &format!("\n[[when]]\nbackend = \"{backend}\"\npaths = [\"{module}_{backend}\"]\n");
        }
        // A coding agent replaces a kernel; a function in parts has none of its own.
        if matches!(self.form, Form::Kernels(_)) {
            text += "\n[[hole]]\nname = \"kernel\"\nkind = \"kernel\"\ncheck = \"verify --device\"\ncontract = \"\"\"\n";
            text += &format!("{CONTRACT}\n\"\"\"\n");
        }
        for (file, backend) in SHARED {
            text +=
                &format!("\n[[shared]]\nfrom = \"{backend}/{file}\"\nto = \"{module}_{backend}/{file}\"\n");
        }
        text
    }

    /// The kernels or the steps, a line each.
    pub fn table(&self) -> Vec<String> {
        match &self.form {
            Form::Kernels(kernels) => kernels.table(),
            Form::Parts(division) => translate::steps(division, &self.op),
        }
    }
}

impl Kernels {
    fn table(&self) -> Vec<String> {
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

fn notes(translation: &Translation, program: &Program) -> Vec<String> {
    let mut notes = Vec::new();
    if !translation.guessed.is_empty() {
        let shapes: Vec<String> = program
            .inputs
            .iter()
            .filter(|input| input.values != Values::Seed)
            .map(|input| {
                let lengths: Vec<String> = input.shape.iter().map(ToString::to_string).collect();
                format!("{} [{}]", input.name, lengths.join(", "))
            })
            .collect();
        notes.push(format!(
            "shapes were guessed: {}; to set them, define `example_inputs()` in your file",
            shapes.join(", ")
        ));
    }
    if !translation.dynamic {
        notes.push("lengths are those of the example: torch.export cannot generalize them".to_owned());
    }
    let mut floats = program.inputs.iter().filter(|input| input.values != Values::Seed);
    if floats.all(|input| input.element == Element::Variable) {
        notes.push("tensors are all bf16, all f16 or all f32".to_owned());
    }
    if let Some(seed) = program.inputs.iter().find(|input| input.values == Values::Seed) {
        notes.push(format!(
            "dropout follows from `{}`: pass it, or PyTorch's generator draws it for each call",
            seed.name
        ));
    }
    notes
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
}
