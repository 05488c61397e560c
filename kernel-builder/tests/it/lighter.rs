//! The text that NVIDIA's front ends read in place of another, with the standard library of this machine.
//!
//! The program that g++ makes of either must be the same: what the front ends make of them only an NVIDIA compiler tells.

use std::io::Write;
use std::process::{Command, Stdio};

use kernel_plan::steps;

/// Uses what libstdc++ decides by `__conditional_t`.
const SOURCE: &str = r#"
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
using Row = std::tuple<std::string, int, std::unique_ptr<int>>;
void take(Row& to, Row&& from) { to = std::move(from); }
std::size_t count(std::unordered_map<std::string, std::pair<const int, float>>& rows) { rows.clear(); return rows.size(); }
std::string& first(std::variant<std::string, double>& value) { return std::get<0>(value); }
bool same(const std::tuple<int, double>& a, const std::tuple<long, float>& b) { return a == b; }
static_assert(std::is_same_v<std::common_type_t<int, long>, long> && std::is_copy_assignable_v<std::pair<int, std::string>>);
static_assert(!std::is_copy_assignable_v<Row> && std::is_nothrow_move_assignable_v<Row>);
"#;

#[test]
fn the_machines_library_is_the_same_program_in_a_lighter_text() {
    let text = compile(&["-E"], SOURCE.as_bytes());
    if !String::from_utf8_lossy(&text).contains("__conditional_t") {
        eprintln!("skipped: the C++ library of this machine does not choose types by an alias");
        return;
    }
    let lighter =
        steps::lighter(&text).expect("libstdc++ defines its alias in another way: see steps::lighter");
    let assembly = |text: &[u8]| compile(&["-S", "-O2", "-fpreprocessed"], text);
    assert!(assembly(&text) == assembly(&lighter), "the assembler texts differ");
}

fn compile(flags: &[&str], text: &[u8]) -> Vec<u8> {
    let mut compiler = Command::new("g++")
        .args(["-std=c++17", "-x", "c++", "-", "-o", "-"])
        .args(flags)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("g++ is needed to build anything");
    compiler.stdin.take().expect("it is piped").write_all(text).expect("g++ reads its input");
    let done = compiler.wait_with_output().expect("g++ ends");
    assert!(done.status.success(), "g++ {flags:?} failed");
    done.stdout
}
