"""Dropout from a seed: the published random numbers, in Python and in both languages of kernels, and its statistics."""

from __future__ import annotations

import ctypes
import math
import os
import shutil
import subprocess
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812, as everyone writes it
from conftest import tensor

import dropout
from inputs import draw_inputs
from loading import Unusable
from masks import remember
from subject import Subject
from translation import Translation, translation

if TYPE_CHECKING:
    from collections.abc import Callable

SHARED = Path(__file__).resolve().parents[3] / "templates" / "_shared"
# `philox4x32 10` of kat_vectors in Random123: counter, key, result.
KNOWN = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]
# The code of the processor, and that of the device with its functions written out.
SOURCE = """#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>
#define KERNEL_ISA processor
#define KERNEL_TARGET
#define KERNEL_LANES 4
#define KERNEL_X86 0
#include "vectors.h"
#include "steps.h"
#define __device__
#define __forceinline__ inline
static unsigned __umulhi(unsigned a, unsigned b) {{ return static_cast<uint64_t>(a) * b >> 32; }}
namespace device {{
{device}
}}
#define TWIN(space)                                                                                            \\
    extern "C" void space##_words(const uint32_t* counter, const uint32_t* key, uint32_t* to) {{                \\
        const space::Philox found = space::philox({{{{counter[0], counter[1], counter[2], counter[3]}}}}, key[0], key[1]); \\
        for (int i = 0; i < 4; ++i) to[i] = found.word[i];                                                     \\
    }}                                                                                                          \\
    extern "C" long long space##_bits(long long seed, long long place, long long stream) {{                     \\
        return space::random_bits(seed, place, stream);                                                        \\
    }}
TWIN(processor)
TWIN(device)
"""
FILE = """import torch
import torch.nn.functional as F


def example_inputs():
    return torch.randn(6, 16), torch.randn(6, 16)


def added(x, y):
    return F.dropout(x, 0.25) + F.dropout(y, p=0.5)


def in_place(x, y):
    z = x + y
    return F.dropout(z, 0.25, inplace=True) * z


def not_random(x, y):
    return F.dropout(x, 0.0) + F.dropout(y, 0.5, training=False) + 1


def nothing(x, y):
    return x + F.dropout(y, 1.0)


def named(seed, y):
    return seed + torch.dropout(y, 0.5, True)
"""


def words(text: str) -> list[int]:
    return [int(word, 16) for word in text.split()]


@pytest.fixture(scope="module")
def space() -> dict[str, Any]:
    """The part of a reference that has `_Dropout`."""
    found: dict[str, Any] = {}
    exec(dropout.IMPORTS + dropout.text(), found)
    return found


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """`philox` and `random_bits` of steps.h and steps.cuh."""
    compiler = os.environ.get("CXX", "c++")
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is missing")
    folder = tmp_path_factory.mktemp("philox")
    text = (SHARED / "cuda" / "steps.cuh").read_text(encoding="utf-8")
    device = text[text.index("struct Philox") : text.index("// As exact as a result of T")]
    (folder / "twin.cpp").write_text(SOURCE.format(device=device), encoding="utf-8")
    command = [compiler, "-std=c++17", "-O1", "-fPIC", "-shared", "-w", f"-I{SHARED / 'cpu'}"]
    subprocess.run([*command, str(folder / "twin.cpp"), "-o", str(folder / "twin.so")], check=True)
    library = ctypes.CDLL(str(folder / "twin.so"))
    for name in ("processor_bits", "device_bits"):
        getattr(library, name).restype = ctypes.c_longlong
        getattr(library, name).argtypes = [ctypes.c_longlong] * 3
    return library


@pytest.mark.parametrize(("counter", "key", "result"), KNOWN)
def test_the_published_numbers(
    space: dict[str, Any], compiled: ctypes.CDLL, counter: str, key: str, result: str
) -> None:
    def scalars(text: str) -> list[torch.Tensor]:
        return [torch.tensor([word]) for word in words(text)]

    assert [int(one) for one in space["_philox"](scalars(counter), scalars(key))] == words(result)
    four, two = ctypes.c_uint32 * 4, ctypes.c_uint32 * 2
    for name in ("processor_words", "device_words"):
        found = four()
        getattr(compiled, name)(four(*words(counter)), two(*words(key)), found)
        assert list(found) == words(result)


@pytest.mark.parametrize("seed", [0, 1, -1, 2**63 - 1, -(2**63), 81985529216486895])
def test_kernels_and_the_reference_have_the_same_numbers(
    space: dict[str, Any], compiled: ctypes.CDLL, seed: int
) -> None:
    for place, stream in ((0, 0), (1, 0), (0, 1), (2**32 - 1, 2), (2**32 + 5, 3)):
        low = 0xFFFFFFFF
        counter = [torch.tensor([one]) for one in (place & low, place >> 32, stream, 0)]
        exact = int(space["_philox"](counter, [torch.tensor([seed & low]), torch.tensor([seed >> 32 & low])])[0])
        assert compiled.processor_bits(seed, place, stream) == exact
        assert compiled.device_bits(seed, place, stream) == exact


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_the_share_of_kept_elements(space: dict[str, Any], p: float) -> None:
    kept: Callable[..., torch.Tensor] = space["_kept"]
    count = 1 << 18
    masks = [
        kept(torch.tensor([seed]), torch.Size([1 << 9, 1 << 9]), stream, p)
        for seed in (3, 4, 3 << 32)
        for stream in (0, 1)
    ]
    # Six standard deviations.
    near = 6 * math.sqrt(p * (1 - p) / count)
    assert all(abs(float(mask.double().mean()) - (1 - p)) < near for mask in masks)
    for place, one in enumerate(masks):
        for other in masks[:place]:
            both = float((one & other).double().mean())
            assert abs(both - (1 - p) ** 2) < 6 * math.sqrt((1 - p) ** 2 * (1 - (1 - p) ** 2) / count)
    rows = masks[0].double().mean(1)
    assert float((rows - (1 - p)).abs().max()) < 8 * math.sqrt(p * (1 - p) / 512)


def of_file(tmp_path: Path, name: str) -> tuple[Translation, dict[str, Any]]:
    """The translation of a function of FILE, and its reference module."""
    path = tmp_path / "functions.py"
    path.write_text(FILE, encoding="utf-8")
    found = translation(Subject(str(path), name), lambda _: None)["translation"]
    assert found is not None
    module: dict[str, Any] = {}
    exec(FILE + found["reference"]["text"] + (found["gradient"] or found)["reference"]["text"], module)
    return found, module


def masks_of(found: Translation) -> list[list[Any]]:
    return [one["arguments"][2:] for one in found["graph"]["nodes"] if one["op"] == "kernelwright.kept.default"]


def test_a_graph_has_a_mask_for_each_dropout(tmp_path: Path, space: dict[str, Any]) -> None:
    found, module = of_file(tmp_path, "added")
    assert masks_of(found) == [[0, 0.25], [1, 0.5]]
    assert [one["name"] for one in found["graph"]["inputs"]] == ["x", "y", "seed"]
    assert found["graph"]["seed"] == found["graph"]["inputs"][2]["value"]
    gradient = found["gradient"]
    assert gradient is not None
    assert [one["name"] for one in gradient["graph"]["inputs"]] == ["grad_out", "seed"]
    seed, x = torch.tensor([5]), torch.randn(300, 7, dtype=torch.float64)
    result = module["added_reference"](x, x, seed)
    kept = [space["_kept"](seed, x.shape, stream, p).double() for stream, p in ((0, 0.25), (1, 0.5))]
    assert torch.allclose(result, x * kept[0] / 0.75 + x * kept[1] / 0.5)
    assert torch.equal(result, module["added_reference"](x, x, seed))
    assert not torch.equal(result, module["added_reference"](x, x, torch.tensor([6])))
    of_x, of_y = module["added_backward"](torch.ones_like(x), seed)
    assert torch.allclose(of_x, kept[0] / 0.75) and torch.allclose(of_y, kept[1] / 0.5)


def test_the_oracle_computes_each_mask_once(tmp_path: Path) -> None:
    found, _ = of_file(tmp_path, "added")
    reference = ModuleType("reference")
    exec(FILE + found["reference"]["text"], reference.__dict__)
    x, seed = torch.randn(30, 7, dtype=torch.float64), torch.tensor([5])
    expected = [reference.added_reference(x, x, one) for one in (seed, seed + 1)]
    calls: list[tuple[Any, ...]] = []
    kept: Callable[..., torch.Tensor] = reference.__dict__["_kept"]

    def counted(*arguments: Any) -> torch.Tensor:
        calls.append(arguments)
        return kept(*arguments)

    reference.__dict__["_kept"] = counted
    remember(reference)
    for _ in range(3):
        assert torch.equal(reference.added_reference(x, x, seed.clone()), expected[0])
    assert [one[1:] for one in calls] == [(x.shape, 0, 0.25), (x.shape, 1, 0.5)]
    # A seed that is written to is another seed, and a mask has the shape of its tensor.
    seed += 1
    assert torch.equal(reference.added_reference(x, x, seed), expected[1])
    assert reference.added_reference(x[:4], x[:4], seed).shape == (4, 7)
    assert len(calls) == 6


def test_a_reference_without_dropout_stays_as_it_is() -> None:
    reference = ModuleType("reference")
    reference.__dict__["_kept"] = kept = object()
    remember(reference)
    assert reference.__dict__["_kept"] is kept


def test_dropout_in_place_changes_the_value(tmp_path: Path) -> None:
    found, module = of_file(tmp_path, "in_place")
    assert masks_of(found) == [[0, 0.25]]
    x = torch.ones(40, 50, dtype=torch.float64)
    values = module["in_place_reference"](x, x, torch.tensor([5])).unique()
    assert torch.allclose(values, torch.tensor([0.0, (2 / 0.75) ** 2], dtype=torch.float64))


def test_probabilities_of_zero_and_one_are_as_in_pytorch(tmp_path: Path) -> None:
    found, module = of_file(tmp_path, "not_random")
    assert [one["name"] for one in found["graph"]["inputs"]] == ["x", "y"]
    found, module = of_file(tmp_path, "nothing")
    x = torch.randn(6, 16)
    assert torch.equal(module["nothing_reference"](x, x, torch.tensor([5])), x + F.dropout(x, 1.0))


def test_the_seed_has_a_name_of_its_own(tmp_path: Path) -> None:
    found, _ = of_file(tmp_path, "named")
    assert [one["name"] for one in found["graph"]["inputs"]] == ["seed", "y", "seed_2"]


def test_a_module_is_traced_in_training_mode_on_request(tmp_path: Path) -> None:
    text = """import torch


class Layer(torch.nn.Module):
    def __init__(self, length: int = 16):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(length))
        self.drop = torch.nn.Dropout(0.25)

    def forward(self, x):
        return self.drop(x * self.scale)
"""
    for more, masks, mode in (("", [], ".eval()"), ("\n\nexample_training = True\n", [[0, 0.25]], ".train()")):
        path = tmp_path / "layer.py"
        path.write_text(text + more, encoding="utf-8")
        found = translation(Subject(str(path), "Layer"), lambda _: None)["translation"]
        assert found is not None
        assert masks_of(found) == masks
        assert f"_module = Layer(){mode}" in found["reference"]["text"]


def test_the_training_mode_is_true_or_false(tmp_path: Path) -> None:
    path = tmp_path / "layer.py"
    path.write_text("import torch\n\nexample_training = 'no'\n\n\ndef layer(x):\n    return x\n", encoding="utf-8")
    with pytest.raises(Unusable, match="example_training is 'no'; it must be True or False"):
        Subject(str(path), "layer")


def test_seeds_of_calls_have_64_bits() -> None:
    from conftest import input_set, oracle_case

    case = oracle_case([tensor("seed", [1], "i64", seed=True)], [tensor("out", [1])], [input_set() for _ in range(8)])
    seeds = [int(one) for number in range(8) for one in draw_inputs(7, case, number) if one is not None]
    assert len(set(seeds)) == 8
    assert min(seeds) < 0 < 2**32 < max(seeds)
