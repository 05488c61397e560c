//! Side effects of a user's function that a caller can see, as reported by harness/effects.py.
//!
//! Owns: which of it a template must have, and which is only told. Never: runs Python.

use serde::Deserialize;

use super::serves::{Form, Served};

/// Side effects of one call, compared with those of the kernel.
#[derive(Debug, Clone, Deserialize)]
pub struct Effects {
    /// Results whose dtype is another one than the template's: the place, the dtype of the inputs, the person's and the
    /// template's.
    pub dtypes: Vec<(usize, String, String, String)>,
    /// Dtypes for which the person's function fails and the template's reference does not, with the error.
    pub failing: Vec<(String, String)>,
    /// Places of results that are not contiguous where the template's are.
    pub scattered: Vec<usize>,
    /// Parameters that no input and no scalar of the operation takes.
    pub parameters: Vec<UnusedParameter>,
    /// Arguments that the kernel overwrites.
    pub overwrites: Vec<Overwrite>,
    /// Results that share memory with an argument on one side only.
    pub aliases: Vec<Alias>,
    /// Results of the person's that share memory with each other.
    pub shared_results: Vec<(usize, usize)>,
    /// Gradients.
    pub gradients: Gradients,
    /// Whether a module computes the same in training.
    pub training: bool,
    /// Parameters and buffers of a module that a call changes.
    pub written_state: Vec<String>,
    /// The type of what a call returns: `tensor`, `tuple`, another one.
    pub returns: String,
    /// Arguments of the module's constructor that have a default, as `name=value`.
    pub made_with: Vec<String>,
}

/// A parameter that the kernel does not have.
#[derive(Debug, Clone, Deserialize)]
pub struct UnusedParameter {
    /// Its name.
    pub name: String,
    /// Effect of other values.
    pub effect: Effect,
    /// Whether it is a buffer of a module, and no parameter of the call.
    pub buffer: bool,
    /// The value that it has, as Python writes it.
    pub value: Option<String>,
    /// Whether `example_inputs()` gives the value.
    pub pinned: bool,
    /// A value with which something else comes out.
    pub other: Option<String>,
}

/// Effect of other values of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// The code does not read it.
    Unread,
    /// Nothing, for all values that were tried.
    Idle,
    /// Other values fail, or change nothing.
    Only,
    /// Something else comes out.
    Changes,
    /// It is read, and no value is known to try.
    Unknown,
    /// `*args` or `**kwargs` that the code reads.
    PassedOn,
}

/// An argument that the kernel overwrites.
#[derive(Debug, Clone, Deserialize)]
pub struct Overwrite {
    /// The person's parameter.
    pub slot: String,
    /// The input of the operation.
    pub input: String,
    /// Whether the person's function leaves the same there.
    pub alike: bool,
}

/// A result that shares memory with an argument on one side only.
#[derive(Debug, Clone, Deserialize)]
pub struct Alias {
    /// The place of the person's result.
    pub result: usize,
    /// The person's parameter.
    pub slot: String,
    /// Whether it is the person's result that does.
    pub own: bool,
}

/// Gradients, by the person's parameters.
#[derive(Debug, Clone, Deserialize)]
pub struct Gradients {
    /// Parameters with a gradient in the user's function.
    pub own: Vec<String>,
    /// Parameters with a gradient in the kernel.
    pub kernel: Vec<String>,
    /// Gradients that differ.
    pub differs: Vec<Slope>,
    /// Why the person's function does not run with gradients.
    pub error: Option<String>,
}

/// A gradient that differs.
#[derive(Debug, Clone, Deserialize)]
pub struct Slope {
    /// The person's parameters.
    pub slots: Vec<String>,
    /// The largest deviation, in parts of the largest of its row.
    pub deviation: f64,
}

/// Why a template does not serve, and what to do about it, where that is not to change the template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// The difference.
    pub what: String,
    /// The next step.
    pub step: Option<String>,
}

impl From<String> for Reason {
    fn from(what: String) -> Self {
        Self { what, step: None }
    }
}

impl Effects {
    /// Differences that a caller would notice; each one refuses the template.
    pub(crate) fn reasons(&self, function: &str, written_to: &[String]) -> Vec<Reason> {
        let mut found: Vec<Reason> = self.narrowed().map(Reason::from).into_iter().collect();
        found.extend(self.parameters.iter().filter_map(|left| left.reason(function)));
        for Overwrite { slot, input, alike } in &self.overwrites {
            if !written_to.contains(slot) {
                found.push(
                    format!("the kernel overwrites `{slot}` (its `{input}`), but your function does not")
                        .into(),
                );
            } else if !alike {
                found.push(format!("it leaves a different value in `{slot}` than the kernel").into());
            }
        }
        for Alias { result, slot, own } in &self.aliases {
            let number = result + 1;
            found.push(Reason::from(if *own {
                format!("result {number} is a view of `{slot}`; the kernel returns a new tensor")
            } else {
                format!("the kernel returns `{slot}` as result {number}, but your function a new tensor")
            }));
        }
        for (first, second) in &self.shared_results {
            let (first, second) = (first + 1, second + 1);
            found.push(
                format!("its results {first} and {second} share memory, but the kernel's do not").into(),
            );
        }
        found.extend(self.gradients.reasons());
        if !self.training {
            found.push(Reason {
                what: "in training mode it gives other results than after `eval()`".to_owned(),
                step: Some(
                    "Remove random layers and those with statistics (dropout, batch norm) from the module."
                        .to_owned(),
                ),
            });
        }
        for name in &self.written_state {
            found.push(
                format!("a call changes the `{name}` of the module, but the kernel has no state").into(),
            );
        }
        found
    }

    /// Results that the kernel rounds to a dtype with fewer digits than the person's have, or that are of another kind.
    fn narrowed(&self) -> Option<String> {
        let precise = |dtype: &str| match dtype {
            "float64" => 3,
            "float32" => 2,
            _ => 1,
        };
        let is_float = |dtype: &str| dtype.contains("float");
        let narrows = |own: &str, kernel: &str| {
            own != kernel && (!is_float(own) || !is_float(kernel) || precise(kernel) <= precise(own))
        };
        let mut all = self.dtypes.iter();
        let (place, given, own, kernel) = all.find(|(_, _, own, kernel)| narrows(own, kernel))?;
        Some(format!("for {given} its result {} is {own}, but the kernel's is {kernel}", place + 1))
    }

    /// Notes for the user about a template that serves.
    pub(crate) fn notes(&self, served: &Served, form: &Form, outputs: usize) -> Vec<String> {
        let mut found = Vec::new();
        if let Some((place, given, own, kernel)) = self.dtypes.first() {
            found.push(format!(
                "for {given} your result {} is {own}, but the kernel's is {kernel}",
                place + 1
            ));
        }
        found.extend(self.failing.iter().map(|(dtype, error)| {
            format!("for {dtype} your function fails, but the kernel does not: {error}")
        }));
        found.extend(
            self.scattered
                .iter()
                .map(|place| format!("your result {} is not contiguous, but the kernel's is", place + 1)),
        );
        found.extend(self.parameters.iter().filter_map(UnusedParameter::note));
        found.extend(form.given.iter().map(|(input, value)| {
            format!(
                "your function has no `{input}`: pass `{value}` with the dtype and device of the input{}",
                lengths(served, value)
            )
        }));
        let is_single = matches!(self.returns.as_str(), "tensor");
        if is_single && outputs > 1 || !is_single && (outputs == 1 || self.returns != "tuple") {
            let kernel = if outputs == 1 { "a tensor" } else { "a tuple" };
            found.push(format!("your function returns a {}, but the kernel returns {kernel}", self.returns));
        }
        found.extend(self.gradients.notes(served));
        if !self.made_with.is_empty() {
            let arguments = self.made_with.join(", ");
            found.push(format!("the module was made with {arguments}; other ones may need another kernel"));
        }
        found
    }
}

/// The axes of an expression, in words.
fn lengths(served: &Served, text: &str) -> String {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let words: Vec<&str> = text.split(|letter| !is_part(letter)).collect();
    let Some(input) = served.op.inputs.first() else { return String::new() };
    let name = &input.tensor.name.value;
    let axes = input.tensor.shape.iter().map(|axis| axis.value.as_str()).enumerate();
    let last = input.tensor.shape.len().saturating_sub(1);
    let told = axes.filter(|(_, axis)| words.contains(axis)).map(|(place, axis)| match place {
        place if place == last => format!("; `{axis}` is the length of the last axis of `{name}`"),
        place => format!("; `{axis}` is the length of axis {place} of `{name}`"),
    });
    told.collect()
}

impl UnusedParameter {
    fn shown(&self) -> &str {
        self.value.as_deref().unwrap_or("its value")
    }

    fn reason(&self, function: &str) -> Option<Reason> {
        let Self { name, effect, other, pinned, .. } = self;
        if self.buffer {
            let what = match effect {
                Effect::Changes => format!(
                    "the result depends on the buffer `{name}` of the module, and the kernel has no input for it"
                ),
                Effect::Only | Effect::Unknown => format!(
                    "calls fail with other values of the buffer `{name}` of the module, and the kernel has no input for it"
                ),
                Effect::Unread | Effect::Idle | Effect::PassedOn => return None,
            };
            return Some(what.into());
        }
        let what = match effect {
            Effect::Changes if !pinned => {
                let other = other.as_deref().unwrap_or("another value");
                format!("the kernel has no parameter `{name}`, and `{name}={other}` gives another result")
            }
            Effect::Unknown if !pinned => {
                format!("the kernel has no parameter `{name}`, and the effect of other values is not known")
            }
            Effect::PassedOn => format!("it passes `{name}` on, but the kernel takes no further arguments"),
            _ => return None,
        };
        let step = match effect {
            Effect::PassedOn => format!("Name the arguments in place of `{name}`."),
            _ => format!(
                "If the kernel is for `{name}={}` only, write a function without `{name}` that calls `{function}` with it, and \
                 give its name to --from; or let `example_inputs()` return the value of `{name}`.",
                self.shown()
            ),
        };
        Some(Reason { what, step: Some(step) })
    }

    fn note(&self) -> Option<String> {
        let Self { name, effect, pinned, .. } = self;
        if self.buffer {
            return None;
        }
        Some(match effect {
            Effect::Unread => format!(
                "`{name}` has no effect: your function does not read it; the kernel has no such parameter"
            ),
            Effect::Idle if !pinned => {
                format!("no tested value of `{name}` has an effect; the kernel has no such parameter")
            }
            Effect::Only => format!(
                "the tested values of `{name}` fail or have no effect; the kernel has no such parameter"
            ),
            Effect::Changes | Effect::Unknown | Effect::Idle if *pinned => {
                format!(
                    "the kernel is only for `{name}` = {} from `example_inputs()`; it has no such parameter",
                    self.shown()
                )
            }
            _ => return None,
        })
    }
}

impl Gradients {
    fn reasons(&self) -> Vec<Reason> {
        let differs = self.differs.iter().map(|slope| {
            let names = quoted(&slope.slots);
            let detached = slope.slots.iter().all(|slot| !self.own.contains(slot));
            Reason::from(if detached {
                format!("its result has no gradient of {names}, but the kernel's has one")
            } else if slope.deviation >= 1e299 {
                format!("the gradient of {names} cannot be compared with the kernel's")
            } else {
                format!(
                    "the gradient of {names} differs from the kernel's by {} of the row's largest value",
                    percent(slope.deviation)
                )
            })
        });
        differs.collect()
    }

    fn notes(&self, served: &Served) -> Option<String> {
        if let Some(error) = &self.error {
            return Some(format!("your function fails when gradients are computed: {error}"));
        }
        let lacking: Vec<String> =
            self.own.iter().filter(|slot| !self.kernel.contains(slot)).cloned().collect();
        if served.gradients().is_empty() && !lacking.is_empty() {
            return Some(format!(
                "the kernel has no gradient, and your function has (of {}): use it for inference alone",
                quoted(&lacking)
            ));
        }
        if !lacking.is_empty() {
            return Some(format!(
                "the kernel has no gradient of {}, but your function has",
                quoted(&lacking)
            ));
        }
        (self.own.is_empty() && !self.kernel.is_empty())
            .then(|| "your function has no gradient, but the kernel has one".to_owned())
    }
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// A share as a percentage, with two digits at least.
pub(super) fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if (10.0..1e6).contains(&percent) => format!("{percent:.0}%"),
        percent if (0.1..10.0).contains(&percent) => format!("{percent:.1}%"),
        percent => format!("{percent:.1e}%"),
    }
}
