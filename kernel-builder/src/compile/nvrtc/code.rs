//! The kernels that a set of launches needs, as machine code.
//!
//! Owns: which texts are compiled with which macros, and which function of which of them a launch starts.
//! Never: starts one.

use std::collections::{BTreeMap, BTreeSet};

use kernel_plan::spec::expr::Value;
use kernel_plan::spec::launch::{ConcreteLaunch, KernelLaunch};

use super::unit::{Cubin, Form, Source, Unit};
use super::{Compiler, NvrtcError};

/// Macros with their values, as the compiler is told.
type Defines = Vec<(String, String)>;

/// Machine code with the places of its kernels.
#[derive(Debug, Clone, Default)]
pub(crate) struct Code {
    /// One for each set of macros.
    pub cubins: Vec<Cubin>,
    places: BTreeMap<(Defines, String), (u32, u32)>,
}

impl Code {
    /// Compiles what `launches` start, each text once for each set of macros.
    ///
    /// # Errors
    /// The first that does not compile.
    pub(crate) fn compile<'a>(
        source: &Source,
        launches: impl IntoIterator<Item = &'a ConcreteLaunch>,
        arch: &str,
        compiler: &Compiler,
    ) -> Result<Self, NvrtcError> {
        let mut code = Self::default();
        for (defines, expressions) in kernels_by_defines(launches) {
            let expressions: Vec<String> = expressions.into_iter().collect();
            let unit = Unit {
                source: source.clone(),
                defines: defines.clone(),
                arch: arch.to_owned(),
                form: Form::Cubin,
                expressions: expressions.clone(),
            };
            let cubin = compiler.compile(&unit)?;
            let module = code.cubins.len() as u32;
            for (function, expression) in expressions.into_iter().enumerate() {
                code.places.insert((defines.clone(), expression), (module, function as u32));
            }
            code.cubins.push(cubin);
        }
        Ok(code)
    }

    /// Compiles kernels that are known by name, in one text without macros; their places are those of the list.
    ///
    /// # Errors
    /// They do not compile.
    pub(crate) fn plain(
        source: &Source,
        expressions: Vec<String>,
        arch: &str,
        compiler: &Compiler,
    ) -> Result<Self, NvrtcError> {
        let arch = arch.to_owned();
        let unit = Unit { source: source.clone(), defines: vec![], arch, form: Form::Cubin, expressions };
        Ok(Self { cubins: vec![compiler.compile(&unit)?], places: BTreeMap::new() })
    }

    /// The module and the function of a kernel of a launch that was compiled.
    pub(crate) fn place(&self, launch: &ConcreteLaunch, kernel: &KernelLaunch) -> Option<(u32, u32)> {
        self.places.get(&(defines(launch), kernel.name_expression())).copied()
    }
}

/// The kernels of some launches by the macros that they are compiled with.
fn kernels_by_defines<'a>(
    launches: impl IntoIterator<Item = &'a ConcreteLaunch>,
) -> BTreeMap<Defines, BTreeSet<String>> {
    let mut wanted: BTreeMap<Defines, BTreeSet<String>> = BTreeMap::new();
    for launch in launches {
        let names = launch.kernels.iter().map(KernelLaunch::name_expression);
        wanted.entry(defines(launch)).or_default().extend(names);
    }
    wanted.retain(|_, names| !names.is_empty());
    wanted
}

fn defines(launch: &ConcreteLaunch) -> Defines {
    let value = |value: &Value| match value {
        Value::Boolean(truth) => u8::from(*truth).to_string(),
        Value::Integer(number) => number.to_string(),
    };
    launch.defines.iter().map(|(name, number)| (name.to_string(), value(number))).collect()
}

#[cfg(test)]
mod tests {
    use kernel_plan::units::PythonName;

    use super::*;

    fn launch(width: i64, entries: &[&str]) -> ConcreteLaunch {
        let kernel = |entry: &&str| KernelLaunch {
            place: 0,
            entry: (*entry).to_owned(),
            template: vec![],
            grid: [1; 3],
            block: [32, 1, 1],
            cluster: None,
            shared: 0,
            carveout: None,
            cooperative: false,
            arguments: vec![],
        };
        let name = |text: &str| text.parse::<PythonName>().unwrap();
        ConcreteLaunch {
            defines: vec![(name("WIDTH"), Value::Integer(width)), (name("FAST"), Value::Boolean(true))],
            workspaces: vec![],
            tensor_maps: vec![],
            kernels: entries.iter().map(kernel).collect(),
        }
    }

    #[test]
    fn a_text_is_compiled_once_for_each_set_of_macros() {
        let launches =
            [launch(4, &["sum", "scale"]), launch(4, &["sum"]), launch(8, &["sum"]), launch(2, &[])];
        let wanted = kernels_by_defines(&launches);
        let defines =
            |width: &str| vec![("WIDTH".to_owned(), width.to_owned()), ("FAST".to_owned(), "1".to_owned())];
        assert_eq!(wanted.len(), 2);
        assert_eq!(wanted[&defines("4")], BTreeSet::from(["scale".to_owned(), "sum".to_owned()]));
        assert_eq!(wanted[&defines("8")], BTreeSet::from(["sum".to_owned()]));
    }
}
