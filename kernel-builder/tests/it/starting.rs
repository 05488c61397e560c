//! How a generated launcher starts kernels and what it does with tensors at odd addresses, on a runtime that starts
//! nothing (fake_cuda/). The same calls are made through the package on a GPU by the tests of every generated project.

use std::path::Path;
use std::process::Command;

const PROGRAM: &str = r#"
#include <cstdio>
#include <memory>
#include "start.h"
#include "aligned.h"

static void launch(const char* what, start::Geometry geometry, const void* function = "kernel") {
    start::Failure failure;
    failure.kernel = "walk";
    const int before = launches;
    const cudaError_t error = start::kernel(failure, function, geometry, nullptr, nullptr);
    std::printf("%s: %s%s%s\n", what, error == cudaSuccess ? "" : start::text(failure).c_str(),
                launches > before ? "started" : "", cudaGetLastError() == cudaSuccess ? "" : ", AND AN ERROR IS LEFT");
}

struct Scratch {
    alignas(16) char memory[4][64];
    int used = 0;
    void* allocate(int64_t) { return memory[used++]; }
};

int main() {
    launch("plain", {{1, 1, 1}, {512, 1, 1}, {0, 0, 0}, 0, false});
    launch("no rows", {{0, 1, 1}, {512, 1, 1}, {0, 0, 0}, 0, false});
    launch("48 KiB beside static shared memory", {{1, 1, 1}, {512, 1, 1}, {0, 0, 0}, 48 * 1024, false});
    launch("less afterwards", {{1, 1, 1}, {512, 1, 1}, {0, 0, 0}, 60 * 1024, false});
    launch("too much shared memory", {{1, 1, 1}, {512, 1, 1}, {0, 0, 0}, 199990, false});
    launch("too many threads for the function", {{1, 1, 1}, {1024, 1, 1}, {0, 0, 0}, 0, false});
    launch("too many threads for any", {{1, 1, 1}, {32, 64, 1}, {0, 0, 0}, 0, false});
    launch("too many blocks", {{1, 70000, 1}, {32, 1, 1}, {0, 0, 0}, 0, false});
    launch("negative", {{-1, 1, 1}, {32, 1, 1}, {0, 0, 0}, 0, false});
    launch("no instance", {{1, 1, 1}, {32, 1, 1}, {0, 0, 0}, 0, false}, nullptr);
    std::printf("dynamic shared memory: %d\n", allowed);

    start::Failure failure;
    failure.kernel = "walk";
    int32_t narrowed = 0;
    start::narrow(failure, "`hidden`", INT32_MAX, narrowed);
    std::printf("%d %d\n", narrowed == INT32_MAX, failure.error);
    start::narrow(failure, "`hidden`", INT64_C(1) << 31, narrowed);
    std::printf("%s\n", start::text(failure).c_str());

    alignas(16) char tensor[32] = "?input data here";
    alignas(16) char other[32] = "??????????????????????????????";
    Scratch scratch;
    host::Aligned<Scratch> aligned(scratch, nullptr);
    const void* even = tensor;
    const void* odd = tensor + 1;
    const void* missing = nullptr;
    void* out = other + 2;
    const void* read = other + 20;
    void* written = other + 20;
    aligned.input(even, 8);
    aligned.input(odd, 10);
    aligned.input(missing, 8);
    aligned.output(out, 4);
    aligned.both(read, written, 4);
    std::printf("%d %d %d %d\n", even == tensor, host::is_aligned(odd) && host::is_aligned(out), missing == nullptr, read == written);
    std::printf("%.10s %.4s\n", static_cast<const char*>(odd), static_cast<const char*>(read));
    std::memcpy(out, "OUT!", 4);
    std::memcpy(written, "BOTH", 4);
    aligned.finish();
    std::printf("%s\n", other);
}
"#;

const EXPECTED: &str = "\
plain: started
no rows: \n\
48 KiB beside static shared memory: started
less afterwards: started
too much shared memory: the kernel walk could not be started: the shared memory of a block in bytes is 200090, and the limit is 200000
too many threads for the function: the kernel walk could not be started: the number of threads in a block is 1024, and the limit is 512
too many threads for any: the kernel walk could not be started: the number of threads in a block is 2048, and the limit is 1024
too many blocks: the kernel walk could not be started: the number of blocks in y is 70000, and the limit is 65535
negative: the kernel walk could not be started: the number of blocks in x is -1, and the limit is 2147483647
no instance: the kernel walk could not be started: invalid device function
dynamic shared memory: 199900
1 0
the kernel walk could not be started: `hidden` is 2147483648, and the limit is 2147483647
1 1 1 1
input data ????
??OUT!??????????????BOTH??????
";

#[test]
fn a_launch_that_fails_names_the_limit_and_leaves_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("starting.cpp"), folder.path().join("starting"));
    std::fs::write(&source, PROGRAM).unwrap();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let done = Command::new("g++")
        .args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(here.join("resources/host"))
        .arg("-I")
        .arg(here.join("tests/it/fake_cuda"))
        .args([source.as_path(), Path::new("-o"), program.as_path()])
        .output()
        .expect("g++ is needed to build anything");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let said = Command::new(&program).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&said.stdout), EXPECTED);
}
