"""Launch descriptions: memory contents, YAML both ways, every mistake at its line and column."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kgen.emu.launch import (
    POISON_BYTE,
    Array,
    Constant,
    File,
    Integers,
    Launch,
    Pointer,
    Poison,
    Raw,
    Scalar,
    Struct,
    dump_launch,
    load_launch,
)
from kgen.emu.tensormap import TensorMap
from kgen.errors import EmulatorError

EXAMPLE = """\
kernel: gemm
grid: [4, 2, 1]
block: [384, 1, 1]
cluster: [2, 1, 1]
dynamic_shared_bytes: 230400
registers: 168
overlaps_previous: true
arrays:
  A: {dtype: f16, shape: [256, 64], row_stride: 72, fill: {integers: {lo: -4, hi: 4, seed: 1}}, guard_bytes: 256, role: in}
  bias: {dtype: f32, shape: [128], fill: {constant: 0.5}, constant: true}
  D: {dtype: bf16, shape: [256, 128], fill: poison, role: out}
arguments:
  - tensor_map: {dtype: f16, array: A, dims: [64, 256], strides: [144], box: [64, 64], swizzle: 128}
  - pointer: {array: D, offset: 16}
  - pointer: bias
  - scalar: {type: s32, value: -5}
  - scalar: {type: f32, value: 1.0e-05}
  - bytes: "0011ff"
"""  # noqa: E501

LAUNCH = Launch(
    kernel="gemm",
    grid=(4, 2, 1),
    block=(384, 1, 1),
    cluster=(2, 1, 1),
    dynamic_shared_bytes=230400,
    registers=168,
    overlaps_previous=True,
    arrays=(
        Array("A", "f16", (256, 64), Integers(-4, 4, 1), 72, 256, "in"),
        Array("bias", "f32", (128,), Constant(0.5), constant=True),
        Array("D", "bf16", (256, 128), Poison(), role="out"),
    ),
    arguments=(
        TensorMap("f16", "A", (64, 256), (144,), (64, 64), swizzle=128),
        Pointer("D", 16),
        Pointer("bias"),
        Scalar("s32", -5),
        Scalar("f32", 1e-5),
        Raw("0011ff"),
    ),
)


def test_load(tmp_path):
    path = tmp_path / "launch.yaml"
    path.write_text(EXAMPLE)
    assert load_launch(path) == LAUNCH


def test_dump_is_the_same_text(tmp_path):
    path = tmp_path / "launch.yaml"
    assert dump_launch(LAUNCH, path) == EXAMPLE
    assert path.read_text() == EXAMPLE


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), 1e30, 1e-30, -0.0, 3])
def test_numbers_survive(tmp_path, value):
    launch = Launch(
        "k",
        (1, 1, 1),
        (32, 1, 1),
        (Array("X", "f32", (4,), Constant(value)),),
        (Scalar("f64", value), Pointer("X")),
    )
    dump_launch(launch, tmp_path / "l.yaml")
    back = load_launch(tmp_path / "l.yaml")
    np.testing.assert_array_equal(back.arrays[0].contents(), launch.arrays[0].contents())
    one, two = back.arguments[0], launch.arguments[0]
    assert isinstance(one, Scalar) and isinstance(two, Scalar)
    assert one.to_bytes() == two.to_bytes()


def test_names_that_need_quotes_survive(tmp_path):
    launch = Launch("null", (1, 1, 1), (32, 1, 1), (Array('1 "x"', "u8", (4,)),))
    dump_launch(launch, tmp_path / "l.yaml")
    assert load_launch(tmp_path / "l.yaml") == launch


def test_minimal(tmp_path):
    path = tmp_path / "launch.yaml"
    path.write_text("kernel: k\ngrid: [3]\nblock: [64, 2]\n")
    assert load_launch(path) == Launch("k", (3, 1, 1), (64, 2, 1))


MISTAKES = [
    # old text, new text, the text at which the message points, what it says
    (
        "registers: 168",
        "register: 168",
        "register:",
        "register: unknown key; did you mean registers?",
    ),
    ("kernel: gemm\n", "", "grid", "kernel: missing"),
    ("registers: 168", "block: [1]", "block: [1]", "duplicate key"),
    ("role: in}", "rule: in}", "rule", "unknown key; did you mean role?"),
    ("block: [384, 1, 1]", "block: [384, 1.5, 1]", "1.5", "block[1]: expected an integer"),
    ("block: [384, 1, 1]", "block: [1024, 2, 1]", "[1024", "block: 2048 threads"),
    ("block: [384, 1, 1]", "block: 384", "384", "block: expected a list, found 384"),
    ("block: [384, 1, 1]", "block: [9, 1, 1, 1]", "[9", "expected [x, y, z], found 4 entries"),
    ("grid: [4,", "grid: [5,", "2, 1, 1]\ndynamic", "cluster[0]: 2 does not divide grid[0] = 5"),
    ("grid: [4,", "grid: [true,", "true", "grid[0]: expected an integer, found True"),
    ("grid: [4,", "grid: [0,", "0, 2, 1]", "grid[0]: 0 is not in 1..2147483647"),
    ("cluster: [2, 1", "cluster: [4, 8", "[4, 8", "cluster: 32 CTAs are not in 1..16"),
    ("230400", "232449", "232449", "dynamic_shared_bytes: 232449 is not in 0..232448"),
    ("dtype: f16, shape", "dtype: fp16, shape", "fp16", "arrays.A.dtype: 'fp16' is none of"),
    ("row_stride: 72", "row_stride: 63", "63", "63 is less than a row of 64"),
    ("lo: -4, hi: 4", "lo: 5, hi: 4", "{lo", "lo 5 is above hi 4"),
    ("hi: 4", "hi: 4000", "{lo", "-4..4000 is not exact in f16"),
    ("fill: poison", "fill: poisson", "poisson", "(poison?)"),
    ("{constant: 0.5}", "{constant: 0.5, file: x}", "{constant", "exactly one of"),
    ("role: out", "role: output", "output", "'output' is none of in, out, inout"),
    (
        "box: [64, 64], swizzle",
        "box: [128, 64], swizzle",
        "128, 64]",
        "arguments[0].tensor_map.box[0]: 128 x 2 B = 256 B is wider than the 128B swizzle",
    ),
    ("strides: [144]", "strides: [136]", "136", "strides[0]: 136 bytes is not a multiple of 16"),
    (
        "array: A, dims",
        "array: B, dims",
        "B, dims",
        "arguments[0].array: no array 'B'; there are: A, bias, D",
    ),
    ("offset: 16", "offset: 65537", "65537", "arguments[1].offset: 65537 bytes is outside"),
    ("value: -5", "value: 0.25", "0.25", "0.25 is not an integer, the type is s32"),
    ("type: s32, value: -5", "type: u8, value: 256", "256}", "256 does not fit u8 (0..255)"),
    ("type: s32", "type: int", "int, value", "'int' is none of"),
    ('"0011ff"', '"0011f"', '"0011f"', "arguments[5].bytes"),
    ("pointer: bias", "pointer: D, offset: 4", ": 4\n", "not YAML"),
    ("kernel: gemm", "kernel: [", "block", "not YAML"),
]


@pytest.mark.parametrize(("old", "new", "at", "what"), MISTAKES)
def test_mistakes_are_placed(tmp_path, old, new, at, what):
    path = tmp_path / "launch.yaml"
    assert old in EXAMPLE
    text = EXAMPLE.replace(old, new, 1)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(EmulatorError) as caught:
        load_launch(path)
    message = str(caught.value)
    assert what in message
    before = text[: text.index(at)]
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    assert message.startswith(f"{path}:{line}:{column}: ")


def test_every_mistake_is_reported(tmp_path):
    path = tmp_path / "launch.yaml"
    text = EXAMPLE.replace("registers: 168", "registers: many")
    text = text.replace("[384, 1, 1]", "[384, 1, x]").replace("value: -5", "valu: -5")
    path.write_text(text)
    with pytest.raises(EmulatorError) as caught:
        load_launch(path)
    for part in (
        "registers: expected an integer",
        "block[2]: expected",
        "did you mean value?",
        "scalar.value: missing",
    ):
        assert part in str(caught.value)


def test_no_such_file(tmp_path):
    with pytest.raises(EmulatorError, match="No such file"):
        load_launch(tmp_path / "none.yaml")


@pytest.mark.parametrize("text", ["", "- 1\n", "kernel\n"])
def test_not_a_launch(tmp_path, text):
    path = tmp_path / "launch.yaml"
    path.write_text(text)
    with pytest.raises(EmulatorError, match="expected a mapping with kernel, grid, block"):
        load_launch(path)


# ---------------------------------------------------------------- memory


def test_padded_rows():
    array = Array("A", "f16", (3, 4), Integers(-9, 9, 7), row_stride=8)
    memory = array.allocate()
    assert memory.size == array.nbytes == (2 * 8 + 4) * 2
    values = np.random.default_rng(7).integers(-9, 10, (3, 4))
    halves = memory.view(np.float16)
    for row in range(3):
        np.testing.assert_array_equal(halves[8 * row : 8 * row + 4], values[row])
    assert (memory.view(np.uint16)[4:8] == POISON_BYTE * 257).all()
    np.testing.assert_array_equal(array.values(memory), values)


@pytest.mark.parametrize(
    ("dtype", "value", "bits"),
    [
        ("f16", 1.5, 0x3E00),
        ("bf16", -2, 0xC000),
        ("e4m3", 1, 0x38),
        ("e5m2", 1, 0x3C),
        ("tf32", 1, 0x3F800000),
        ("f32", 0.5, 0x3F000000),
        ("f64", 1, 0x3FF0000000000000),
        ("s8", -1, 0xFF),
        ("u16", 300, 300),
        ("s64", -2, 2**64 - 2),
    ],
)
def test_constants(dtype, value, bits):
    array = Array("X", dtype, (2, 3), Constant(value))
    assert (array.contents() == bits).all() and array.contents().shape == (2, 3)
    assert (array.values(array.allocate()) == value).all()


def test_random_integers_cover_both_ends():
    values = Array("X", "s8", (1000,), Integers(-2, 2, 3)).values(
        Array("X", "s8", (1000,), Integers(-2, 2, 3)).allocate()
    )
    assert sorted(set(values.tolist())) == [-2, -1, 0, 1, 2]


def test_poison_is_nan_or_minus_one():
    for dtype in ("f16", "bf16", "f32", "e4m3", "e5m2", "f64", "tf32"):
        array = Array("X", dtype, (4,))
        assert np.isnan(array.values(array.allocate())).all()
    assert (Array("X", "s32", (4,)).values(Array("X", "s32", (4,)).allocate()) == -1).all()


def test_files(tmp_path):
    np.save(tmp_path / "half.npy", np.arange(6, dtype=np.float16).reshape(2, 3))
    np.save(tmp_path / "bits.npy", np.array([[0x3F80, 0x4000, 0x4040]], np.uint16))
    half = Array("X", "f16", (2, 3), File(str(tmp_path / "half.npy")))
    np.testing.assert_array_equal(half.values(half.allocate()), [[0, 1, 2], [3, 4, 5]])
    bits = Array("X", "bf16", (1, 3), File(str(tmp_path / "bits.npy")))
    np.testing.assert_array_equal(bits.values(bits.allocate()), [[1, 2, 3]])
    with pytest.raises(EmulatorError, match=r"has shape \(2, 3\)"):
        replace(half, shape=(3, 2)).contents()
    with pytest.raises(EmulatorError, match="holds float16"):
        replace(half, dtype="bf16").contents()
    with pytest.raises(EmulatorError, match="No such file"):
        replace(half, fill=File(str(tmp_path / "none.npy"))).contents()


def test_file_paths_are_relative_to_the_launch(tmp_path):
    np.save(tmp_path / "x.npy", np.ones(4, np.float32))
    path = tmp_path / "launch.yaml"
    path.write_text(
        "kernel: k\ngrid: [1]\nblock: [32]\n"
        "arrays: {X: {dtype: f32, shape: [4], fill: {file: x.npy}}}\n"
    )
    (array,) = load_launch(path).arrays
    np.testing.assert_array_equal(array.values(array.allocate()), np.ones(4))


def test_validate_names_the_launch_and_the_field():
    with pytest.raises(EmulatorError, match=r"launch of gemm: cluster\[0\]: 3 does not divide"):
        replace(LAUNCH, cluster=(3, 1, 1)).validate()
    assert LAUNCH.validate() is LAUNCH
    assert LAUNCH.array("D").role == "out"


def test_argument_bytes():
    assert Scalar("s32", -5).to_bytes() == (-5).to_bytes(4, "little", signed=True)
    assert Scalar("f32", 1.0).to_bytes() == bytes.fromhex("0000803f")
    assert Raw("0011ff").to_bytes() == bytes([0, 0x11, 0xFF])


def test_a_struct_is_laid_out_as_c_does_and_survives_the_text(tmp_path):
    members = (
        Scalar("s32", 1),
        Pointer("x"),
        Scalar("u8", 2),
        Scalar("s64", -1),
        Scalar("s16", 3),
    )
    struct = Struct(members)
    assert struct.offsets() == [0, 8, 16, 24, 32, 40]
    launch = Launch("k", (1, 1, 1), (32, 1, 1), (Array("x", "f32", (4,)),), (struct,))
    path = tmp_path / "launch.yaml"
    dump_launch(launch, path)
    assert load_launch(path) == launch


@pytest.mark.parametrize(
    ("member", "what"),
    [
        ("{pointer: y}", "no array 'y'"),
        ("{scalar: {type: s32, value: 1.5}}", "1.5 is not an integer"),
        ("{tensor_map: {}}", "struct[1].tensor_map: unknown"),
    ],
)
def test_a_wrong_member_of_a_struct_is_placed(tmp_path, member, what):
    path = tmp_path / "launch.yaml"
    path.write_text(
        "kernel: k\ngrid: [1]\nblock: [32]\narrays:\n  x: {dtype: f32, shape: [4]}\n"
        f"arguments:\n  - struct: [{{pointer: x}}, {member}]\n"
    )
    with pytest.raises(EmulatorError) as error:
        load_launch(path)
    assert f"{path}:7:" in str(error.value)
    assert what in str(error.value)


BASE = "kernel: k\ngrid: [1]\nblock: [32]\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("arguments: " + "[" * 3000 + "]" * 3000, "4:27: nested deeper than 16"),
        ("registers: " + "9" * 5000, "4:12: a number of 5000 characters"),
        ("registers: 2001-99-01", "4:12: 2001-99-01: a launch has no dates"),
        ("<<: {registers: 3}", "4:1: a merge"),
        ("arrays: {a: &x {dtype: f32, shape: [9]}, b: *x}", "4:13: an anchor"),
        ("registers: !!int 3", "4:12: a tag"),
        ("arrays: {a: {dtype: f32, shape: [99999999999, 9999]}}", "4:33: arrays.a.shape: 39995"),
        ("arrays: {a: {dtype: u8, shape: [" + "1," * 99 + "1]}}", "4:32: arrays.a.shape: 100 dim"),
        ("arrays: {a: {dtype: u8, shape: [1], guard_bytes: 2000000000}}", "guard_bytes: 2"),
        ("arrays: {a: {dtype: u8, shape: [1], fill: {constant: .inf}}}", "inf is not an integer"),
        ("arrays: {a: {dtype: u8, shape: [1], fill: {constant: 256}}}", "256 does not fit u8"),
        ("arrays: {a: {dtype: f32, shape: [1], fill: {constant: " + "9" * 399 + "}}}", "over the"),
        ("arrays: {a: {dtype: u8, shape: [1], fill: {integers: {lo: 0, hi: 1, seed: -1}}}}", "-1"),
        ("arguments: [{scalar: {type: f32, value: " + "9" * 399 + "}}]", "over the range of f32"),
    ],
)  # fmt: skip
def test_hostile_values_are_refused_at_their_place(tmp_path, text, message):
    path = tmp_path / "launch.yaml"
    path.write_text(BASE + text)
    with pytest.raises(EmulatorError) as raised:
        load_launch(path)
    assert str(raised.value).startswith(f"{path}:4:") and message in str(raised.value)


def test_the_line_shown_is_the_line_meant(tmp_path):
    """U+2028 inside a text is no line break."""
    path = tmp_path / "launch.yaml"
    path.write_text('kernel: "a\u2028b"\ngrid: [1]\nblock: [1]\nregisters: many\n', "utf-8")
    with pytest.raises(EmulatorError, match="(?s):4:12: registers: expected.*| registers: many"):
        load_launch(path)
