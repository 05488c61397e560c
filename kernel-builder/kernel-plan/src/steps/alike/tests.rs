//! Owns: pairs of texts, and whether they are one program. Never: compiles one; `cargo xtask projects` does.

use super::*;

const DEVICE: &str = "__attribute__((device))";

#[track_caller]
fn check(one: &str, other: &str, want: Option<&[&str]>) {
    for (one, other) in [(one, other), (other, one)] {
        let read = |text: &str| Program::read(text.as_bytes().to_vec());
        let found = read(one).and_then(|one| one.alike(&read(other)?));
        let found: Option<Vec<&str>> = found.as_ref().map(|names| names.iter().map(String::as_str).collect());
        assert_eq!(found.as_deref(), want, "{one} / {other}");
    }
}

/// The same text with another value in place of `@`; `D` makes a function one of the device.
#[track_caller]
fn varied(text: &str, want: Option<&[&str]>) {
    let text = text.replace("D ", &format!("{DEVICE} "));
    check(&text.replace('@', "1"), &text.replace('@', "22"), want);
}

/// A text with and without `extra`.
#[track_caller]
fn extra(extra: &str, text: &str, want: Option<&[&str]>) {
    let [extra, text] = [extra, text].map(|text| text.replace("D ", &format!("{DEVICE} ")));
    check(&format!("int a; {extra} {text}"), &format!("int a; {text}"), want);
}

#[test]
fn markers_and_blanks_are_no_difference() {
    check("# 1 \"a.h\"\nint  a;\n", "# 7 \"b.h\" 3\n\nint a ;", Some(&[]));
    check("#pragma once\nint a;", "#pragma twice\nint a;", None);
    check("int a;", "int a; int b;", None);
    check("namespace n { int a; } namespace n { int b; }", "namespace n { int a; int b; }", Some(&[]));
    check("namespace n { int a; }", "namespace m { int a; }", None);
    check("namespace n { int a; ", "namespace n { int a; ", None);
}

#[test]
fn a_number_that_nobody_asks_for() {
    varied("namespace n { constexpr unsigned MAX = @; } int f();", Some(&[]));
    varied("constexpr unsigned MAX = @; int a[MAX];", None);
    varied("template <int N> constexpr int MAX = @;", None);
    varied("int MAX = @;", None);
    varied("constexpr int MAX = 3 + @;", None);
    varied("int f(int a = @);", None);
    varied("extern const int MAX = @;", None);
}

#[test]
fn a_body_counts_when_its_code_is_there() {
    varied("extern \"C\" { static D int f(int a) { if (a) { return @; } return 0; } }", Some(&["f"]));
    varied("namespace n { inline D int g() noexcept { return @; } int h() { return 2; } }", Some(&["g"]));
    varied("D int N::f(int a) const { return @; }", Some(&["f"]));
    varied("[[nodiscard]] [[gnu::pure]] D int f(int a) { return @; }", Some(&["f"]));
    varied("D T::T(int a) : a(@) { }", Some(&["1TC"]));
    varied("template <class T> D int f(T a) { return @; }", Some(&["f"]));
    varied("D pair<int, bool> f(int a) { return {@}; }", Some(&["f"]));
}

#[test]
fn a_function_in_a_class_is_known_by_its_name() {
    varied("struct S { int a; D int f() { return @; } };", Some(&["f"]));
    varied("class alignas(4) S final : B { public: explicit D S(int a) { b = @; } };", Some(&["1SC"]));
    varied("template <class T> struct S { D int f() { return @; } }; S<int> s;", None);
    varied("struct S { D operator int() { return @; } };", None);
    varied("struct S { static constexpr int a = @; };", None);
    varied("struct S { int a = @; };", None);
    check("struct S { D int f() { } int a; };", "struct S { D int f() { } };", None);
}

#[test]
fn the_hosts_functions_decide_which_kernels_there_are() {
    varied("void f() { kernel<@><<<1, 1>>>(); }", None);
    varied("int f() { return @; }", None);
    varied("__attribute__((global)) D void f() { a = @; }", None);
}

#[test]
fn a_number_that_the_host_assigns_decides_on_nothing() {
    varied(
        "namespace n { int f(int& a) { [[maybe_unused]] int b = 1; { g<void>; a = @; } return 0; } }",
        Some(&[]),
    );
    check("void f() { a = 1; }", "void f() { a = 0; }", None);
    check("void f() { a = 1; }", "void f() { a = 1u; }", None);
    check("void f() { a = 1; }", "void f() { a = 1; b = 1; }", None);
    for other in [
        "void f() { a += @; }",
        "void f() { int a = @; }",
        "void f() { g(@); }",
        "void f() { x.a = @; }",
        "void f() { static_assert([] { int a = 0; a = @; return a; }() == 1); }",
        "void f() { struct S { static constexpr int g(int a) { a = @; return a; } }; }",
        "constexpr int f(int a) { a = @; return a; }",
        "template <class T> void f(T a) { a = @; }",
        "void f() { kernel<<<a, b>>>(c = @); }",
        "S::S() { a = @; }",
    ] {
        varied(other, None);
    }
}

#[test]
fn a_template_of_a_class_that_nobody_names() {
    let policy = "namespace n { template <int V> struct P { using A = If<(@ < V)>; template <int> friend struct P; }; }";
    varied(policy, Some(&[]));
    varied(&format!("{policy} n::P<1> p;"), None);
    varied(&format!("{policy} template <> struct n::P<1>;"), None);
    varied(&format!("{policy} D int f() {{ return n::P<1>::A; }}"), None);
    varied("struct P { using A = If<(@ < 3)>; };", None);
    varied("template <int V> struct P { int a[@]; }; template <int V> struct P<V[1]> { };", None);
}

#[test]
fn what_is_evaluated_while_compiling_is_a_difference() {
    for text in [
        "D constexpr int f() { return @; }",
        "D auto f() { return @; }",
        "template <> D int f<int>(int a) { return @; }",
        "template <class T> D constexpr int f(T a) { return @; }",
        "template <class T> D decltype(a) f(T a) { return @; }",
        "struct S { int a[@]; };",
        "enum E { A = @ };",
        "int a[] = { @ };",
        "D bool operator<(T, T) { return @; }",
        "int g(int a = [] { return @; }());",
        "template <int N = @> struct S { };",
        "template <class T> concept C = requires(T a) { a + @; } && !requires(T a) { a - @; };",
    ] {
        varied(text, None);
    }
}

#[test]
fn what_one_text_lacks_must_not_be_named_in_it() {
    extra("static D int f(int a); static D int f(int a) { return a; }", "int b;", Some(&[]));
    extra(
        "extern \"C\" { D int f_impl(int); inline D int f(int a) { return f_impl(a); } }",
        "int b;",
        Some(&[]),
    );
    extra("template <class T> struct S { T a; }; template <class T> struct S<T*> { };", "int b;", Some(&[]));
    extra("template <typename T> D int f(T a) requires(sizeof(T) == 16) { return a; }", "int b;", Some(&[]));
    // It would be there without being called.
    extra("D int f(int a) { return a; }", "int b;", None);
    extra("__attribute__((global)) static D void f() { }", "int b;", None);
    extra("D int counter;", "int b;", None);
    extra("static int f(int a) { return a; }", "int b;", None);
    // It would change what something else means.
    extra("template <> struct S<int> { };", "int b;", None);
    extra("static D T operator+(T a, T b) { return a; }", "int b;", None);
    extra("using namespace n;", "int b;", None);
    extra("struct S { } s;", "int b;", None);
    extra("struct S { };", "struct S; int b;", None);
    extra("template <class T> struct S { };", "D int g() { return sizeof(S<int>); }", None);
}

#[test]
fn an_overload_that_one_text_lacks_must_not_be_called() {
    let f = "static D int f(float a) { return a; }";
    extra(f, "static D int f(int a) { return a; }", Some(&["f"]));
    extra(f, "static D int f(int a); D int g() { return f(1); }", Some(&["f", "g"]));
    extra(f, "template <class T> D int g(T a) { return f(a); }", Some(&["g"]));
    varied("D int f(int a = [] { return @; }()); D int g() { return f(); }", Some(&["f", "g"]));
    extra(f, "D int g() { asm(\"call f;\"); }", Some(&["g"]));
    extra(f, "template <class T> D decltype(f(T())) g(T a) { return f(a); }", None);
    extra(f, "D constexpr int g() { return f(1); }", None);
    extra(f, "struct S { int a = f(1); };", None);
    extra(f, "struct S { D int g() { return f(1); } };", None);
    extra(f, "int a = f(1);", None);
}

#[test]
fn literals_hold_braces() {
    varied(
        "const char* a = \"{\\\"\"; char b = '{'; const char* c = R\"x({)\")x\"; D int f() { return @; }",
        Some(&["f"]),
    );
    varied("const char* a = R\"(\" } @ )\";", None);
}
