//! The same program in words that NVIDIA's C++ front ends read faster.
//!
//! libstdc++ 12 and later choose between two types by an alias template that is a member of a class. The front ends keep
//! the instances of such an alias in a list of that class, and walk to its end for each one that they add. Torch's
//! headers make thousands of them: two fifths of the time of `cicc`'s front end, one fifth of `cudafe++`'s.
//! A class template that chooses between the same two types has no such list.
//!
//! Owns: the one definition that is replaced, and its way back. Never: touches a text where anything but libstdc++ names
//! that definition, or where it is written differently; changes a line's number.

use std::ops::Range;

use memchr::memmem::{self, Finder};

use super::tokens::Tokens;

/// Stands in what is made of a lighter text where the replaced definition was seen, e.g. in the name of a function:
/// then the text itself is to be read.
pub const LIGHTER: &str = "__kernelwright_conditional";

/// libstdc++'s definition (`type_traits`), as tokens: two classes, and the alias up to the type that it is.
const CLASSES: &str = "template < bool > struct __conditional { template < typename _Tp , typename > using type = _Tp ; } ; \
     template < > struct __conditional < false > { template < typename , typename _Up > using type = _Up ; } ;";
const ALIAS: &str = "template < bool _Cond , typename _If , typename _Else > using __conditional_t =";
const TYPE: &str = "typename __conditional < _Cond > :: template type < _If , _Else > ;";

/// What is put in front of the alias.
const CHOICE: &str = "template<bool, class _If, class _Else> struct __kernelwright_conditional { typedef _If type; }; \
     template<class _If, class _Else> struct __kernelwright_conditional<false, _If, _Else> { typedef _Else type; }; ";

/// What the alias is then.
const CHOSEN: &str = "typename __kernelwright_conditional<_Cond, _If, _Else>::type;";

/// The same as `cudafe++` prints it, as tokens.
const PRINTED_CHOICE: &str = "template < bool , class _If , class _Else > struct __kernelwright_conditional { typedef _If type ; } ; \
     template < class _If , class _Else > struct __kernelwright_conditional < false , _If , _Else > { typedef _Else type ; } ;";

/// A preprocessed text that means the same and is read faster. Nothing where there is nothing to gain or the definition
/// may be seen by others than libstdc++.
pub fn lighter(text: &[u8]) -> Option<Vec<u8>> {
    let named = words(text, b"__conditional").next()?;
    let start = memmem::rfind(&text[..named], b"template")?;
    let classes = follows(text, start, CLASSES)?;
    let alias = follows(text, classes.end, ALIAS)?;
    let chosen = follows(text, alias.end, TYPE)?;
    let own = file_at(text, start)?;
    let home = &own[..=memchr::memrchr(b'/', own)?];
    let rest = &text[chosen.end..];
    let elsewhere = words(rest, b"__conditional").next().is_some()
        || memmem::find(text, LIGHTER.as_bytes()).is_some()
        || names_alias(&text[..start], b"", home)
        || names_alias(rest, own, home);
    if elsewhere {
        return None;
    }
    let parts: [&[u8]; 5] =
        [&text[..alias.start], CHOICE.as_bytes(), &text[alias.start..chosen.start], CHOSEN.as_bytes(), rest];
    Some(parts.concat())
}

/// What `cudafe++` would have made of the text itself, of what it made of the lighter one. Nothing where that cannot be
/// told.
pub fn restored(output: &[u8]) -> Option<Vec<u8>> {
    let named = memmem::find(output, LIGHTER.as_bytes())?;
    let start = memmem::rfind(&output[..named], b"template")?;
    let choice = follows(output, start, PRINTED_CHOICE)?;
    let behind = choice.end + usize::from(output.get(choice.end) == Some(&b' '));
    let mut restored = output[..choice.start].to_vec();
    let mut rest = &output[behind..];
    while let Some(at) = memmem::find(rest, LIGHTER.as_bytes()) {
        restored.extend_from_slice(&rest[..at]);
        let ([condition, types], end) = chosen_between(&rest[at + LIGHTER.len()..])?;
        restored.extend([b"__conditional< ", condition, b"> ::template type< ", types, b"> "].concat());
        rest = &rest[at + LIGHTER.len() + end..];
    }
    restored.extend_from_slice(rest);
    Some(restored)
}

/// What `< condition, type, type> ::type` chooses by, what between, and where it ends.
fn chosen_between(text: &[u8]) -> Option<([&[u8]; 2], usize)> {
    let mut open: Vec<u8> = Vec::new();
    let mut commas = Vec::new();
    let close = text.iter().enumerate().find_map(|(at, byte)| {
        match (byte, open.last()) {
            (b'(', _) | (b'<', Some(b'<') | None) => open.push(*byte),
            (b')', Some(b'(')) => drop(open.pop()),
            (b'>', Some(b'<')) => {
                open.pop();
                return open.is_empty().then_some(Some(at));
            }
            (b',', Some(b'<')) if open.len() == 1 => commas.push(at),
            // Literals, bodies, another end than the one that was looked for.
            (b'"' | b'\'' | b';' | b'{' | b')', _) => return Some(None),
            _ => {}
        }
        None
    })??;
    let [first, _] = commas[..] else { return None };
    let end = follows(text, close + 1, ":: type")?.end;
    let part = |range: Range<usize>| text[range].strip_prefix(b" ");
    Some(([part(1..first)?, part(first + 1..close)?], end))
}

/// Where these tokens stand, when they are the next from `at` on.
fn follows(text: &[u8], at: usize, wanted: &str) -> Option<Range<usize>> {
    let mut tokens = Tokens { text, at };
    let mut wanted = wanted.split_whitespace();
    let first = tokens.next().filter(|token| wanted.next() == std::str::from_utf8(token).ok())?;
    let start = tokens.at - first.len();
    wanted.all(|token| tokens.next() == Some(token.as_bytes())).then_some(start..tokens.at)
}

/// The file that the text at this place is of.
fn file_at(text: &[u8], at: usize) -> Option<&[u8]> {
    let mut end = at;
    loop {
        let start = memchr::memrchr(b'\n', &text[..end]).map_or(0, |newline| newline + 1);
        if let Some(file) = marked(&text[start..end]) {
            return Some(file);
        }
        end = start.checked_sub(1)?;
    }
}

/// The file that a line marker names.
fn marked(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(b"# ").filter(|rest| rest.first().is_some_and(u8::is_ascii_digit))?;
    let start = memchr::memchr(b'"', rest)? + 1;
    let end = memchr::memchr(b'"', &rest[start..])?;
    Some(&rest[start..start + end])
}

/// Whether other files than those below this folder name the alias, in a text that begins within the file `own`. The
/// standard library of the device has one of the same name.
fn names_alias(text: &[u8], own: &[u8], home: &[u8]) -> bool {
    let mut file = own;
    let mut from = 0;
    words(text, b"__conditional_t").any(|at| {
        for line in text[from..at].split(|byte| *byte == b'\n') {
            file = marked(line).unwrap_or(file);
        }
        from = at;
        let device =
            memmem::find(file, b"/include/").is_some() && memmem::find(file, b"/cuda/std/").is_some();
        !file.starts_with(home) && !device
    })
}

/// Where a word stands in a text.
fn words<'t>(text: &'t [u8], word: &'t [u8]) -> impl Iterator<Item = usize> + 't {
    let part = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let places: Vec<usize> = Finder::new(word).find_iter(text).collect();
    places.into_iter().filter(move |at| {
        !part(text.get(at + word.len())) && !part(at.checked_sub(1).and_then(|before| text.get(before)))
    })
}

#[cfg(test)]
mod tests {
    use super::{LIGHTER, lighter, restored};

    const TRAITS: &str = "# 1 \"/usr/include/c++/12/bits/cpp_type_traits.h\" 1 3\n\
        template<bool, typename>\n struct __conditional_type\n { };\n\
        # 1 \"/usr/include/c++/12/type_traits\" 1 3\n\
        template<bool>\n struct __conditional\n {\n template<typename _Tp, typename>\n using type = _Tp;\n };\n\
        template<>\n struct __conditional<false>\n {\n template<typename, typename _Up>\n using type = _Up;\n };\n\
        template<bool _Cond, typename _If, typename _Else>\n using __conditional_t\n\
        = typename __conditional<_Cond>::template type<_If, _Else>;\n";

    fn lightened(rest: &str) -> Option<String> {
        lighter(format!("{TRAITS}{rest}").as_bytes()).map(|text| String::from_utf8_lossy(&text).into_owned())
    }

    #[test]
    fn the_alias_is_replaced_and_no_line_moves() {
        let own = "# 90 \"/usr/include/c++/12/bits/move.h\" 3\n__conditional_t<_X, _A, _B> f();\n# 1 \"a.cu\"\nint x;\n";
        let text = lightened(own).unwrap_or_default();
        assert!(text.contains("= typename __kernelwright_conditional<_Cond, _If, _Else>::type;\n"), "{text}");
        assert!(text.ends_with(own));
        // libcu++ has an alias of the same name in its own namespace.
        let device = "# 9 \"/usr/local/cuda-12.6/include/cuda/std/__utility/move.h\" 3\n__conditional_t<_X, _A, _B> f();\n";
        assert!(lightened(device).is_some());
        assert!(lighter(format!("{device}{TRAITS}").as_bytes()).is_some());
        assert_eq!(text.lines().count(), TRAITS.lines().count() + own.lines().count());
    }

    #[test]
    fn what_others_may_see_stays_as_it_is() {
        for others in [
            "# 1 \"a.cu\"\nstd::__conditional_t<true, int, float> x;\n",
            "# 1 \"/usr/include/c++/13/x\"\nstd::__conditional_t<true, int, float> x;\n",
            "std::__conditional<true> x;\n",
            "int __kernelwright_conditional;\n",
        ] {
            assert_eq!(lightened(others), None, "{others}");
        }
        assert!(lightened("# 1 \"a.cu\"\nint __conditional_type, my__conditional_t;\n").is_some());
    }

    #[test]
    fn another_definition_stays_as_it_is() {
        let before = format!("# 1 \"a.h\"\nstd::__conditional_t<_X, _A, _B> f();\n{TRAITS}");
        assert_eq!(lighter(before.as_bytes()), None);
        let other = TRAITS.replace("using type = _Up", "using type = _Tp");
        assert_eq!(lighter(other.as_bytes()), None);
        assert_eq!(lighter(b"int x;"), None);
    }

    #[test]
    fn the_output_gets_the_definition_back() {
        let output = "struct a;\n# 114\ntemplate< bool , class _If, class _Else> struct __kernelwright_conditional { typedef _If type; }; \
            template< class _If, class _Else> struct __kernelwright_conditional< false, _If, _Else>  { typedef _Else type; }; \
            template< bool _Cond, class _If, class _Else> using __conditional_t = \
            typename __kernelwright_conditional< _Cond, _If, _Else> ::type; \n# 119\nint x;\n";
        let restored_text = restored(output.as_bytes()).unwrap_or_default();
        assert_eq!(
            String::from_utf8_lossy(&restored_text),
            "struct a;\n# 114\ntemplate< bool _Cond, class _If, class _Else> using __conditional_t = \
             typename __conditional< _Cond> ::template type< _If, _Else> ; \n# 119\nint x;\n"
        );
        assert_eq!(restored(b"int x;"), None);
        // Where it stands for the type that the alias is.
        let type_of = |text: &str| {
            let restored = restored(format!("{output}{text}").as_bytes())?;
            Some(String::from_utf8_lossy(&restored).rsplit_once("int x;\n")?.1.to_owned())
        };
        assert_eq!(
            type_of(
                "using typename __kernelwright_conditional< (F< T, U> ::value > 2), A< T> , B< T, f(1, 2)> > ::type::d;"
            )
            .as_deref(),
            Some("using typename __conditional< (F< T, U> ::value > 2)> ::template type< A< T> , B< T, f(1, 2)> > ::d;")
        );
        for unclear in [
            "",
            "< a, b> ::type",
            "< a, b, c>::value",
            "< a < b, c, d> ::type;",
            "< '>', a, b> ::type",
            "<a, b, c> ::type",
        ] {
            assert_eq!(type_of(&format!("{LIGHTER}{unclear}")), None, "{unclear}");
        }
    }
}
