//! Names of kernels in compiled code.
//!
//! Owns: whether a mangled name is that of a function that is written as C++ (Itanium C++ ABI, section 5.1, "External
//! Names"). Never: demangles a name.

/// Whether `mangled` is the name of `function`: namespaces, a name, and template arguments that are dtypes, integers or
/// `true` and `false`, such as `norm_macros_0::norm::held<float, 8>`. The types of the parameters do not matter.
pub fn is_name_of(mangled: &str, function: &str) -> bool {
    reads(mangled, function).is_some()
}

fn reads(mangled: &str, function: &str) -> Option<()> {
    let (path, arguments) = match function.split_once('<') {
        Some((path, rest)) => (path, rest.strip_suffix('>')?.split(", ").collect()),
        None => (function, vec![]),
    };
    let path: Vec<&str> = path.split("::").collect();
    // A name in no namespace has another form; every generated host side has one.
    let mut rest = mangled.strip_prefix("_ZN").filter(|_| path.len() > 1)?;
    for name in &path {
        rest = rest.strip_prefix(&source_name(name))?;
    }
    if arguments.is_empty() {
        return rest.starts_with('E').then_some(());
    }
    rest = rest.strip_prefix('I')?;
    // Every beginning of the path can be referred to, then each class among the arguments.
    let mut classes: Vec<&str> = vec![];
    for argument in arguments {
        rest = match value(argument) {
            Some(value) => after_value(rest, value)?,
            None => match built_in(argument) {
                Some(letter) => rest.strip_prefix(letter)?,
                None => match classes.iter().position(|known| *known == argument) {
                    Some(place) => rest.strip_prefix(&reference(path.len() + place))?,
                    None => {
                        classes.push(argument);
                        rest.strip_prefix(&source_name(argument))?
                    }
                },
            },
        };
    }
    rest.starts_with("EE").then_some(())
}

fn source_name(name: &str) -> String {
    format!("{}{name}", name.len())
}

fn value(argument: &str) -> Option<i64> {
    match argument {
        "true" => Some(1),
        "false" => Some(0),
        number => number.parse().ok(),
    }
}

/// A literal of any built-in type: `Li8E`, `Lb1E`, `Lin1E` for -1.
fn after_value(rest: &str, value: i64) -> Option<&str> {
    let rest = rest.strip_prefix('L')?.strip_prefix(|letter: char| letter.is_ascii_lowercase())?;
    let sign = if value < 0 { "n" } else { "" };
    rest.strip_prefix(&format!("{sign}{}E", value.unsigned_abs()))
}

/// The names of the dtypes that C++ itself has.
fn built_in(argument: &str) -> Option<&'static str> {
    Some(match argument {
        "float" => "f",
        "double" => "d",
        "bool" => "b",
        "signed char" => "a",
        "short" => "s",
        "int" => "i",
        "long long" => "x",
        _ => return None,
    })
}

/// A component that was named before: `S_`, then `S0_`, ... in base 36.
fn reference(place: usize) -> String {
    let Some(mut number) = place.checked_sub(1) else { return "S_".to_owned() };
    let mut digits = vec![];
    loop {
        let digit = (number % 36) as u8;
        digits.push(char::from(if digit < 10 { b'0' + digit } else { b'A' + digit - 10 }));
        number /= 36;
        if number == 0 {
            break;
        }
    }
    format!("S{}_", digits.iter().rev().collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(mangled: &str, function: &str) {
        assert!(is_name_of(mangled, function), "{mangled} is {function}");
    }

    #[track_caller]
    fn differs(mangled: &str, function: &str) {
        assert!(!is_name_of(mangled, function), "{mangled} is not {function}");
    }

    /// The names are those that g++ 13 gives to functions of these templates.
    #[test]
    fn names_are_those_of_a_compiler() {
        let held = "_ZN1m4norm4heldI13__nv_bfloat16Li8ELb1EEEvPT_i";
        check(held, "m::norm::held<__nv_bfloat16, 8, true>");
        differs(held, "m::norm::held<__nv_bfloat16, 8, false>");
        differs(held, "m::norm::held<__nv_bfloat16, 80, true>");
        differs(held, "m::norm::held<__half, 8, true>");
        differs(held, "m::norm::held<__nv_bfloat16, 8>");
        differs(held, "m::norm::hel<__nv_bfloat16, 8, true>");
        differs(held, "m::held<__nv_bfloat16, 8, true>");
        check("_ZN1m4scanIfLin1EEEvPT_", "m::scan<float, -1>");
        differs("_ZN1m4scanIfLi1EEEvPT_", "m::scan<float, -1>");
        check("_ZN1m5plainEPf", "m::plain");
        differs("_ZN1m5plainEPf", "m::plain<float>");
    }

    #[test]
    fn a_class_that_was_named_before_is_a_reference() {
        check("_ZN1m4castI6__half13__nv_bfloat16S1_Lx3EEEvPT_", "m::cast<__half, __nv_bfloat16, __half, 3>");
        check("_ZN1m1n4castI6__halfS2_fEEvv", "m::n::cast<__half, __half, float>");
        differs("_ZN1m1n4castI6__halfS1_fEEvv", "m::n::cast<__half, __half, float>");
        assert_eq!([0, 1, 11, 36, 37].map(reference), ["S_", "S0_", "SA_", "SZ_", "S10_"]);
    }

    #[test]
    fn other_names_are_none() {
        for name in ["", "main", "_ZN", "_ZN1m", "_Z5plainPf", "_ZN1m4castI", "_ZN1m4castILE"] {
            differs(name, "m::cast<float>");
        }
        differs("_Z5plainPf", "plain");
    }
}
