//! Which kept memory depends on inputs, and what is scrambled of it (`harness/kept.py`); needs a Python with torch.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::sandbox::finish;

const REGIONS: &str = r#"
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import torch
from kept import held_by_python, live_blocks, overlap, regions, scramble, varying

def region(*values):
    return torch.tensor(values, dtype=torch.uint8)

# A table stays as it is, a counter depends on calls, scratch on inputs; a result is kept where there was nothing.
first = {1: region(7, 7), 2: region(1), 3: region(0, 5, 5)}
same = {1: region(7, 7), 2: region(2), 3: region(0, 5, 5)}
other = {1: region(7, 7), 2: region(3), 3: region(0, 6, 9), 4: region(8, 8)}
masks = varying(first, same, other)
assert {at: mask.tolist() for at, mask in masks.items()} == {3: [False, True, True], 4: [True, True]}

# Bytes outside of the masks stay; regions that are gone, or have another length, are left alone.
kept = {1: region(7, 7), 3: torch.zeros(3, dtype=torch.uint8), 4: region(8)}
noise = {3: torch.tensor([False, True, True]), 4: masks[4], 5: masks[4]}
seen = set()
for _ in range(64):
    scramble(kept, noise, everything=True)
    assert kept[1].tolist() == [7, 7] and kept[3][0] == 0 and kept[4].tolist() == [8]
    seen.add(tuple(kept[3].tolist()))
assert len(seen) > 1

assert overlap(10, 5, [(14, 1)]) and not overlap(10, 5, [(15, 1), (5, 5)])
blocks = [{"size": 512, "state": "inactive"}, {"size": 1024, "state": "active_allocated"}]
assert live_blocks([{"address": 4096, "blocks": blocks}]) == [(4608, 1024)]

mine, theirs = torch.zeros(100), {"kept": torch.zeros(50)}
found = regions("cpu", [mine[10:20]])
assert theirs["kept"].data_ptr() in found and mine.data_ptr() not in found
assert found[theirs["kept"].data_ptr()].numel() == 200
assert mine.data_ptr() in {one.data_ptr() for one in held_by_python()}
"#;

#[test]
fn kept_memory_that_depends_on_inputs_is_scrambled_and_nothing_else() {
    let Some(cache) = std::env::var_os("KERNELWRIGHT_TORCH_CACHE").map(PathBuf::from) else {
        return eprintln!("skipped: KERNELWRIGHT_TORCH_CACHE names no cache with torch");
    };
    let entries = std::fs::read_dir(cache.join("python")).expect("the folder of managed Pythons");
    let site = entries.flatten().map(|entry| entry.path()).find(|site| site.join("torch").is_dir());
    let site = site.unwrap_or_else(|| panic!("no folder of {} has torch", cache.join("python").display()));
    let harness = Path::new(env!("CARGO_MANIFEST_DIR")).join("harness");
    let mut command = Command::new("python3");
    command.args(["-c", REGIONS]).arg(harness).env("PYTHONPATH", site);
    let finished = finish(&mut command);
    assert_eq!(finished.code, 0, "{}", finished.stderr);
}
