//! What the flags of a compiler say about its result: what the preprocessor has used up, what writes other files, what
//! depends on the machine.
//!
//! Owns: the flags of GCC and Clang that matter for a cache. Never: changes a command.

use std::path::PathBuf;

use kernel_plan::plan::Unit;

use super::cache::watches;

/// Flags of the preprocessor alone, with a value in the next word or behind them: their whole effect is in the
/// preprocessed text.
const CONSUMED: &[&str] = &[
    "-D",
    "-U",
    "-I",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-include",
    "-imacros",
    "-MF",
    "-MT",
    "-MQ",
    "-o",
];

/// Words that say what is made and where.
const OF_THE_RUN: &[&str] = &["-c", "-MD", "-MMD", "-MP"];

/// Flags after which the object holds the whole command line, or all macros.
const RECORDING: &[&str] = &["-g3", "-ggdb3", "-frecord-gcc-switches", "-frecord-command-line"];

/// Beginnings of flags that write other files than the object, or read files that nothing lists: what they do cannot be
/// had from a cache.
const BEYOND_THE_OBJECT: &[&str] = &[
    "@",
    "--coverage",
    "-coverage",
    "-ftest-coverage",
    "-fprofile-",
    "-fauto-profile",
    "-fbranch-probabilities",
    "-fplugin",
    "-fmodule",
    "-fdump-",
    "-dump",
    "-fstack-usage",
    "-fcallgraph-info",
    "-fsave-optimization-record",
    "-fopt-info-",
    "-ftime-trace",
    "-gsplit-dwarf",
    "-save-temps",
    "--save-temps",
    "--keep",
    "-keep",
    "-specs=",
    "--specs=",
    "-B",
    "-Wp,-M",
    "-Wa,-a",
    "-fsanitize-blacklist=",
    "-fsanitize-ignorelist=",
];

/// Macros of a command that say which release of a framework it is for.
pub(super) const FRAMEWORK_MACROS: &[&str] = &["TORCH_TARGET_VERSION"];

/// Flags that map the beginning of a path in what the compiler writes.
const MAPS: &[&str] = &["-ffile-prefix-map=", "-fmacro-prefix-map=", "-fdebug-prefix-map="];

/// The flag that no cache may stand in for, where there is one.
pub(super) fn beyond_the_object(args: &[String]) -> Option<&str> {
    let beyond = |word: &&str| BEYOND_THE_OBJECT.iter().any(|start| word.starts_with(start));
    host_words(args).into_iter().find(beyond)
}

/// Whether a word defines one of [`FRAMEWORK_MACROS`].
pub(super) fn is_for_framework(word: &str) -> bool {
    let name = word.strip_prefix("-D").and_then(|rest| rest.split('=').next());
    name.is_some_and(|name| FRAMEWORK_MACROS.contains(&name))
}

/// The words of a unit's command that say nothing about the framework whose folders are `include`, nor where the object
/// goes. `None`: a word that is left depends on either, or the object would hold the command.
pub(super) fn without_framework<'a>(
    args: &'a [String],
    unit: &Unit,
    include: &[PathBuf],
) -> Option<Vec<&'a str>> {
    if host_words(args).iter().any(|word| RECORDING.contains(word)) {
        return None;
    }
    let folders: Vec<String> = include.iter().map(|folder| folder.display().to_string()).collect();
    let is_map = |word: &str| {
        let word = word.strip_prefix("-Xcompiler=").unwrap_or(word).trim_start_matches('"');
        let mapped = word.strip_prefix("-ffile-prefix-map=").and_then(|map| map.split('=').next());
        mapped.is_some_and(|folder| folders.iter().any(|own| own == folder))
    };
    let mut kept: Vec<&str> = Vec::with_capacity(args.len());
    let mut defined = 0;
    let mut at = 0;
    while let Some(word) = args.get(at) {
        let value = args.get(at + 1);
        let pair = match word.as_str() {
            "-isystem" => value.is_some_and(|value| folders.contains(value)),
            "-o" => value == Some(&unit.object),
            "-MF" => value == Some(&unit.depfile),
            _ => false,
        };
        defined += usize::from(is_for_framework(word));
        if !pair && !is_map(word) && !is_for_framework(word) {
            kept.push(word);
        }
        at += if pair { 2 } else { 1 };
    }
    let depends = |word: &&str| {
        folders.iter().any(|folder| word.contains(folder.as_str()))
            || word.contains(&unit.object)
            || word.contains(&unit.depfile)
            || watches(word.trim_start_matches("-Xcompiler=").trim_start_matches("-D"), FRAMEWORK_MACROS)
    };
    // The plan defines such a macro once; a project that does it as well means something by it.
    (defined < 2 && !kept.iter().any(depends)).then_some(kept)
}

/// Whether the compiler looks at the processor that it runs on.
pub(super) fn asks_the_machine(args: &[String]) -> bool {
    host_words(args).iter().any(|word| word.starts_with("-m") && word.ends_with("=native"))
}

/// Whether the object may hold debugging information, which names the folder that the compiler ran in.
pub(super) fn has_debug_info(args: &[String]) -> bool {
    // `-gencode` is nvcc's.
    host_words(args).iter().any(|word| word.starts_with("-g") && *word != "-gencode")
}

/// The words of a command, those that nvcc hands to the host compiler (`-Xcompiler=A,B`) one by one.
fn host_words(args: &[String]) -> Vec<&str> {
    args.iter()
        .flat_map(|arg| match arg.strip_prefix("-Xcompiler=") {
            Some(words) => words.split(',').collect(),
            None => vec![arg.as_str()],
        })
        .collect()
}

/// The words of a host compiler's command on which the object depends beside the preprocessed text.
pub(super) fn left_after_preprocessing<'a>(args: &'a [String], source: &str) -> Vec<&'a str> {
    let recording = args.iter().any(|arg| RECORDING.contains(&arg.as_str()));
    if recording {
        return args.iter().map(String::as_str).collect();
    }
    let mut kept = Vec::new();
    let mut words = args.iter().map(String::as_str);
    while let Some(word) = words.next() {
        if CONSUMED.contains(&word) {
            words.next();
            continue;
        }
        // `-include-pch` is Clang's, and is no `-include` with its value behind it.
        let joined = word != "-include-pch" && CONSUMED.iter().any(|flag| word.starts_with(flag));
        let mapped = MAPS.iter().any(|map| word.starts_with(map));
        if !joined && !mapped && !OF_THE_RUN.contains(&word) && word != source {
            kept.push(word);
        }
    }
    kept
}

/// The command that preprocesses what `args` compile, to the file `text`; it writes the dependency file as well.
pub(super) fn preprocessing(args: &[String], text: &str) -> Vec<String> {
    let mut changed = Vec::with_capacity(args.len());
    let mut words = args.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "-c" => changed.push("-E".to_owned()),
            "-o" => {
                words.next();
                changed.extend(["-o".to_owned(), text.to_owned()]);
            }
            _ => changed.push(word.clone()),
        }
    }
    changed
}

/// Paths as the object has them: the maps of a command, of which the last that fits is the one that counts.
#[derive(Debug)]
pub(super) struct PathMaps<'a>(Vec<(&'a str, &'a str)>);

impl<'a> PathMaps<'a> {
    /// The maps of a host compiler's command.
    pub(super) fn from_args(args: &'a [String]) -> Self {
        let pairs = args.iter().filter_map(|arg| {
            let value = MAPS.iter().find_map(|map| arg.strip_prefix(map))?;
            value.split_once('=')
        });
        Self(pairs.collect())
    }

    /// Preprocessed text with the paths of its line markers (`# 1 "path" 1 3`) mapped; all other lines as they are.
    pub(super) fn apply(&self, text: &[u8]) -> Vec<u8> {
        let mut mapped = Vec::with_capacity(text.len());
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            match self.marker(line) {
                Some((before, new, after)) => {
                    mapped.extend_from_slice(before);
                    mapped.extend_from_slice(new.as_bytes());
                    mapped.extend_from_slice(after);
                }
                None => mapped.extend_from_slice(line),
            }
        }
        mapped
    }

    /// A line marker whose path is mapped, in three pieces: what stands before the path, its new beginning, the rest.
    fn marker<'b>(&self, line: &'b [u8]) -> Option<(&'b [u8], &'a str, &'b [u8])> {
        let numbered = line.strip_prefix(b"# ")?;
        if !numbered.first()?.is_ascii_digit() {
            return None;
        }
        let path = line.iter().position(|byte| *byte == b'"')? + 1;
        let (old, new) = self.0.iter().rev().find(|(old, _)| line[path..].starts_with(old.as_bytes()))?;
        Some((&line[..path], new, &line[path + old.len()..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn what_the_preprocessor_uses_up_is_left_out() {
        let args = words(
            "-std=c++17 -O3 -DNDEBUG -D A=1 -isystem /torch -I/inc -iquote q -include a.h -includeb.h -Wall \
             -ffile-prefix-map=/torch=/t -frandom-seed=src/a.cpp -MD -MF a.d -c src/a.cpp -o a.o",
        );
        let kept = left_after_preprocessing(&args, "src/a.cpp");
        assert_eq!(kept, ["-std=c++17", "-O3", "-Wall", "-frandom-seed=src/a.cpp"]);
    }

    #[test]
    fn an_object_that_holds_the_command_line_depends_on_all_of_it() {
        for flag in ["-g3", "-frecord-gcc-switches"] {
            let args = words(&format!("-DA {flag} -c a.cpp -o a.o"));
            assert_eq!(left_after_preprocessing(&args, "a.cpp").len(), args.len());
        }
    }

    #[test]
    fn the_preprocessor_is_asked_in_the_same_words() {
        let args = words("-O3 -DA -MD -MF a.d -c src/a.cpp -o a.o");
        let expected = words("-O3 -DA -MD -MF a.d -E src/a.cpp -o a.ii");
        assert_eq!(preprocessing(&args, "a.ii"), expected);
    }

    #[test]
    fn flags_that_a_cache_cannot_stand_in_for() {
        for flag in ["--coverage", "-fprofile-use=x", "@flags", "-gsplit-dwarf", "-Xcompiler=-O2,--coverage"]
        {
            assert!(beyond_the_object(&words(&format!("-O3 {flag} a.cpp"))).is_some(), "{flag}");
        }
        assert_eq!(beyond_the_object(&words("-O3 -DX=@ -fPIC -gencode arch=compute_80,code=sm_80")), None);
        assert!(asks_the_machine(&words("-O3 -Xcompiler=-march=native")));
        assert!(!asks_the_machine(&words("-O3 -march=x86-64-v3 -DA=native")));
        assert!(has_debug_info(&words("-O3 -ggdb")) && !has_debug_info(&words("-O3 -gencode x")));
    }

    #[test]
    fn a_command_without_its_torch() {
        let include = [PathBuf::from("/w/torch/include"), PathBuf::from("/w/torch/include/api")];
        let reduced = |text: &str| {
            let args = words(text);
            let command = kernel_plan::plan::CommandLine::new("c").args(args.clone());
            let unit = Unit {
                name: "a.cu".to_owned(),
                command,
                object: "out/v1/a.o".to_owned(),
                depfile: "out/v1/a.d".to_owned(),
                named: None,
            };
            without_framework(&args, &unit, &include).map(|words| words.join(" "))
        };
        let whole = "-std=c++20 -Xcompiler=-ffile-prefix-map=/w/torch/include=/torch/include \
                     -Xcompiler=-ffile-prefix-map=/cuda=/cuda -DNDEBUG -DTORCH_TARGET_VERSION=0x02 -isystem /w/torch/include \
                     -isystem /w/torch/include/api -isystem /cuda -MD -MF out/v1/a.d -c a.cu -o out/v1/a.o";
        let left = "-std=c++20 -Xcompiler=-ffile-prefix-map=/cuda=/cuda -DNDEBUG -isystem /cuda -MD -c a.cu";
        assert_eq!(reduced(whole).as_deref(), Some(left));
        for more in [
            "-DTORCH_TARGET_VERSION=7",
            "-UTORCH_TARGET_VERSION",
            "-DA=TORCH_TARGET_VERSION",
            "-DTORCH_TARGET=_VERSION",
            "-Xcompiler=-DA=TORCH_TARGET_VERSION",
            "-I/w/torch/include/ATen",
            "-include /w/torch/include/a.h",
            "-DOUT=out/v1/a.o",
            "-g3",
            "-Xcompiler=-O2,-frecord-gcc-switches",
        ] {
            assert_eq!(reduced(&format!("{whole} {more}")), None, "{more}");
        }
    }

    #[test]
    fn paths_of_line_markers_are_mapped_and_nothing_else() {
        let args = words("-ffile-prefix-map=/a/torch=/torch -fmacro-prefix-map=/a/torch/in=/in");
        let text = b"# 1 \"/a/torch/x.h\" 1 3\nauto s = \"/a/torch/x.h\";\n# 7 \"/a/torch/in/y.h\"\n#pragma \"/a/torch\"\n";
        let mapped = PathMaps::from_args(&args).apply(text);
        let expected =
            "# 1 \"/torch/x.h\" 1 3\nauto s = \"/a/torch/x.h\";\n# 7 \"/in/y.h\"\n#pragma \"/a/torch\"\n";
        assert_eq!(String::from_utf8(mapped).unwrap(), expected);
    }
}
