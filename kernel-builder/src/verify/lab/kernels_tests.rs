//! The judge's comparison on the processor: its own text, with stand-ins for what CUDA has beside C++, block by block and
//! thread by thread.

use std::time::Duration;

use kernel_plan::plan::CommandLine;

use super::begin::SOURCE;
use crate::base::process::{self, Limits};
use crate::base::{env, files};

/// What the text needs of CUDA; the shuffle gives a thread its own value, as if all of a warp had the same.
const BEFORE: &str = r"
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>
using namespace std;
#define __global__
#define __device__
struct Place { unsigned x; } blockIdx, threadIdx, blockDim, gridDim;
struct uint4 { unsigned x, y, z, w; };
template <typename N> void atomicAdd(N* to, N value) { *to += value; }
template <typename N> void atomicMax(N* to, N value) { *to = value > *to ? value : *to; }
double __shfl_xor_sync(unsigned, double value, int) { return value; }
long long __double_as_longlong(double value) { long long bits; memcpy(&bits, &value, 8); return bits; }
";
/// Types that are named and not used here.
const TYPES: &str = r"
#pragma once
struct __nv_bfloat16 { unsigned short bits; };
struct __half { unsigned short bits; };
struct __nv_fp8_e4m3 { unsigned char bits; explicit operator float() const { return bits; } };
struct __nv_fp8_e5m2 { unsigned char bits; explicit operator float() const { return bits; } };
inline float __bfloat162float(__nv_bfloat16 value) { return value.bits; }
inline float __half2float(__half value) { return value.bits; }
";
/// For each line of count, blocks, threads, distance and the place that is nearly wrong: elements that lie apart by the
/// distance are wrong, each third of those unwritten; what is found.
const MAIN: &str = r#"
int main() {
    long long count, blocks, threads, apart, near;
    const long long row = 7;
    while (scanf("%lld %lld %lld %lld %lld", &count, &blocks, &threads, &apart, &near) == 5) {
        vector<float> computed(count);
        vector<double> exact(count), terms((count + row - 1) / row, 1.0);
        for (long long i = 0; i < count; ++i) {
            exact[i] = 1.0 + i % 5;
            computed[i] = exact[i];
            if (i % apart == 0) {
                computed[i] += 8;
                if (i / apart % 3 == 0) {
                    memset(&computed[i], 0x5a, sizeof(float));
                }
            }
        }
        // Terms of its row alone are so large that this error is a quarter of what is allowed.
        terms[near / row] = 1024.0;
        computed[near] = exact[near] + 256.0;
        Verdict verdict = {};
        gridDim = {unsigned(blocks)}, blockDim = {unsigned(threads)};
        for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
            for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) {
                judge::compare<float>(computed.data(), exact.data(), terms.data(), count, row, 0x5a, 0.0, 1.0,
                                      0.0, 0.0, 3e38, 0.0, 1, &verdict);
            }
        }
        double worst;
        memcpy(&worst, &verdict.worst, 8);
        printf("%llu %llu %lld %.17g\n", verdict.wrong, verdict.unwritten, (long long)~verdict.first, worst);
    }
}"#;

fn compared(lines: &[String]) -> Vec<String> {
    let folder = files::scratch().unwrap();
    for name in ["cuda_bf16.h", "cuda_fp16.h", "cuda_fp8.h"] {
        let text = if name == "cuda_bf16.h" { TYPES } else { "#include \"cuda_bf16.h\"\n" };
        files::write(&folder.path().join(name), text).unwrap();
    }
    let (source, program) = (folder.path().join("compare.cpp"), folder.path().join("compare"));
    files::write(&source, format!("{BEFORE}{SOURCE}{MAIN}")).unwrap();
    let compiler = env::text(env::CXX).unwrap_or_else(|| "c++".to_owned());
    let line =
        CommandLine::new(compiler).arg("-I").path(folder.path()).arg("-o").path(&program).path(&source);
    let built = process::run(&line, Limits::wall(Duration::from_secs(60))).unwrap();
    assert!(built.ending.success(), "{}", built.stderr_text());
    let mut answers = Vec::new();
    let limits = Limits::wall(Duration::from_secs(60));
    let input = lines.join("\n");
    process::converse(&CommandLine::new(&program), limits, input.as_bytes(), &mut |line| {
        answers.push(line.to_owned())
    })
    .unwrap();
    answers
}

#[test]
fn every_wrong_element_is_found_wherever_it_lies() {
    // Fewer elements than threads, as many as all take at a time, a last round that is not full, and one thread alone.
    let cases = [
        (50i64, 3, 32),
        (384, 3, 32),
        (385, 3, 32),
        (10_007, 3, 32),
        (383, 3, 32),
        (41, 1, 1),
        (9_999, 2, 64),
    ];
    let (mut lines, mut expected) = (Vec::new(), Vec::new());
    for (count, blocks, threads) in cases {
        for apart in [1i64, 2, 5, 7, 97, count] {
            // The row of this place has a bound so large that nothing in it is wrong but for what was never written.
            // It is the first thread of a warp that tells.
            let near = count / 2 / 32 * 32;
            let in_row = |place: i64| place / 7 == near / 7;
            let is_unwritten = |place: i64| place % apart == 0 && place / apart % 3 == 0 && place != near;
            let wrong: Vec<i64> = (0..count)
                .filter(|place| place % apart == 0 && *place != near)
                .filter(|place| is_unwritten(*place) || !in_row(*place))
                .collect();
            let unwritten = wrong.iter().filter(|place| is_unwritten(**place)).count();
            lines.push(format!("{count} {blocks} {threads} {apart} {near}"));
            let first = wrong.first().copied().unwrap_or(-1);
            expected.push(format!("{} {unwritten} {first} 0.25", wrong.len()));
        }
    }
    let found = compared(&lines);
    assert_eq!(found.len(), expected.len());
    for ((line, found), expected) in lines.iter().zip(&found).zip(&expected) {
        assert_eq!(found, expected, "{line}");
    }
}
