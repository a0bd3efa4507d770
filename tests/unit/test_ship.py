"""Shipping: evidence only from records of this very source, tables from winners, one lock."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import shipping
from conftest import F32
from hypothesis import given
from hypothesis import strategies as st
from shipping import NARROW, TALL, digest, result, shipment, spec, two_kernels

from kgen.bench.results import Verified
from kgen.errors import KgenError, VerifyError
from kgen.lines import LINE_LENGTH
from kgen.render import EVIDENCE_BEGIN, EVIDENCE_END, source_digest
from kgen.ship import folder
from kgen.ship.evidence import (
    Emulated,
    Evidence,
    HardwareRun,
    Measured,
    Timing,
    Worst,
    evidence_lines,
)
from kgen.ship.lock import LOCK_NAME, Interval, dump_lock, load_lock
from kgen.ship.make import Records, make_lock, remake
from kgen.ship.package import texts
from kgen.ship.winners import Machine, Winner, from_results, table_name, tables_of
from kgen.spec.names import NAME_LENGTH
from kgen.verify.emulator import EmulatedCase
from kgen.verify.record import (
    EmulatorRecord,
    emulator_record,
    load_emulator_records,
    save_emulator_record,
)

H200 = Machine("NVIDIA H200", "580.1", "13.5.37")
BIG, SMALL = (8192, 8192, 8192), (128, 4096, 4096)


pytestmark = pytest.mark.usefixtures("no_toolchain")


def evidence_of(source: str) -> list[str]:
    block = source[source.index(EVIDENCE_BEGIN) : source.index(EVIDENCE_END)]
    return block.splitlines()[1:]


def said(source: str) -> str:
    """The evidence block without comment marks and line breaks."""
    return " ".join(" ".join(line.removeprefix("//") for line in evidence_of(source)).split())


# --- evidence -------------------------------------------------------------------------------------


def test_evidence_of_a_result_of_this_source():
    wide = spec("wide", F32)
    lock = shipment([wide], [result(wide, {BIG: 1.1})])
    source = texts(lock)["wide.cu"]
    assert said(source) == (
        f"source {digest(wide)} "
        "run on NVIDIA H200, driver 580.1, CUDA 13.5.37, 2026-11-30: right at 2 problems, 1 of "
        "them bit for bit on integers "
        "largest error of an element, as part of its bound: 0.956, element bound gate, "
        "512x512x256, normal, deviation 1, seed 0 "
        "largest absolute error: 0.0303, element bound gate, 512x512x256, normal, deviation 1, "
        "seed 0 "
        "8192 x 8192 x 8192, 30 launches: 100.0 us, 10995 TFLOPS, 1.100 [1.080..1.120] of the "
        "speed of torch.mm"
    )
    assert source_digest(source) == digest(wide), "evidence is outside the digest"


def test_a_result_of_another_source_is_no_evidence_and_ranks_nothing():
    wide = spec("wide", F32)
    other = result(wide, {BIG: 1.1}, source_digest="0123456789ab")
    lock = shipment([wide], [other])
    assert evidence_of(texts(lock)["wide.cu"]) == ["//   none recorded"]
    assert lock.tables == ()
    assert Records((other,), ()).stale("wide", digest(wide)) == ["0123456789ab"]


def test_a_result_of_another_kernel_is_no_evidence():
    wide, slim = spec("wide", F32), spec("slim", NARROW)
    lock = shipment([wide], [result(slim, {BIG: 1.1}, source_digest=digest(wide))])
    assert lock.kernels[0].evidence.is_empty


def emulated(loaded, verdict="clean"):
    return EmulatorRecord.model_validate_json(
        json.dumps(
            {
                "schema_version": 1,
                "kernel": loaded.spec.name,
                "source_digest": digest(loaded),
                "kgen": "0.1.0",
                "emulated_on": "2026-11-30",
                "verdict": verdict,
                "shapes": ["256x256x64", "300x520x136"],
                "right": 2,
                "runs": 4,
                "schedules": ["early", "late"],
            }
        )
    )


def test_emulation_alone_says_that_no_hardware_ran_it():
    wide = spec("wide", F32)
    lock = make_lock([wide], "gemm", (), Records((), (emulated(wide),)))
    assert said(texts(lock)["wide.cu"]) == (
        f"source {digest(wide)} "
        "emulated by kgen 0.1.0, not hardware: clean; 2 of 2 cases right bit for bit, 4 runs under "
        "schedules early, late not run on hardware"
    )


def test_what_a_record_calls_wrong_is_not_shipped():
    wide = spec("wide", F32)
    bad = Verified(shape="8x8x8", data="integers", gate="exact", passed=False)
    with pytest.raises(VerifyError, match="wide: wrong on NVIDIA H200 at 8x8x8"):
        shipment([wide], [result(wide, {}, verification=(bad,))])
    with pytest.raises(VerifyError, match="wide: the emulator found it wrong"):
        make_lock([wide], "gemm", (), Records((), (emulated(wide, "error"),)))


TEXT = st.text(max_size=300)


@given(text=TEXT, other=TEXT)
def test_no_record_can_leave_the_comment(text, other):
    timing = Timing(
        m=1, n=2, k=3, launches=30, median_us=1, tflops=1, note=text, baseline=other,
        baseline_note=other, median=1, low=1, high=1,
    )  # fmt: skip
    worst = Worst(gate=text, figure="max_error", value=1, shape=other, data=text)
    run = HardwareRun(
        gpu=text, driver=other, toolkit=text, measured_on=other, problems=1, exact=1,
        worst=(worst,), timings=(timing,),
    )  # fmt: skip
    emulator = Emulated(kgen=text, verdict=other, cases=1, right=1, runs=1, schedules=(text,))
    for line in evidence_lines(Evidence(emulated=emulator, runs=(run,)), "0" * 12):
        assert line.startswith("//   ") and len(line) <= 100
        assert not line.rstrip().endswith("\\") and line.isprintable()


# --- winners and tables ---------------------------------------------------------------------------


def test_the_larger_ratio_wins_at_each_shape():
    (table,) = two_kernels().tables
    assert table.name == "sm_90a_f16_f32acc"
    assert [(r.m, r.n, r.k, r.kernel) for r in table.rows] == [
        (*SMALL, "slim"),
        (*BIG, "wide"),
    ]
    assert table.rows[1].ratio == Interval(baseline="torch.mm", median=1.1, low=1.08, high=1.12)
    assert (table.gpu, table.driver, table.toolkit) == ("NVIDIA H200", "580.1", "13.5.37")


def test_the_order_of_specs_and_results_changes_nothing():
    wide, slim = spec("wide", F32), spec("slim", NARROW)
    results = [result(wide, {BIG: 1.1}), result(slim, {BIG: 1.0, SMALL: 0.9})]
    one = shipment([wide, slim], results)
    other = shipment([slim, wide], results[::-1])
    assert dump_lock(one) == dump_lock(other)
    assert texts(one) == texts(other)


def test_kernels_of_different_problems_have_tables_of_their_own():
    f32, f16, bf16 = (
        spec("a", F32),
        spec("b"),
        spec("c", {**F32, "d: {dtype: f16": "d: {dtype: bf16"}),
    )
    transposed = spec("d", {**F32, "a: {dtype: f16, major: k}": "a: {dtype: f16, major: m}"})
    assert [table_name(s) for s in (f32, f16, bf16, transposed)] == [
        "sm_90a_f16_f32acc",
        "sm_90a_f16_f16acc",
        "sm_90a_f16_f16_bf16_f32acc",
        "sm_90a_f16_f32acc_a_m",
    ]
    lock = shipment([f32, f16], [result(f32, {BIG: 1.0}), result(f16, {BIG: 1.2})])
    assert [t.name for t in lock.tables] == ["sm_90a_f16_f16acc", "sm_90a_f16_f32acc"]


def test_results_of_two_gpus_want_a_choice():
    wide = spec("wide", F32)
    results = [result(wide, {BIG: 1.1}), result(wide, {BIG: 0.9}, gpu="NVIDIA H100")]
    pairs = [(wide, digest(wide))]
    with pytest.raises(KgenError, match="results come from NVIDIA H100, NVIDIA H200; .* --gpu"):
        from_results(pairs, results)
    (winner,) = from_results(pairs, results, "NVIDIA H100")
    assert winner.ratio and winner.ratio.median == 0.9 and winner.machine.gpu == "NVIDIA H100"
    with pytest.raises(KgenError, match="--gpu: no result of B200 .* NVIDIA H100, NVIDIA H200"):
        from_results(pairs, results, "B200")


def test_winners_of_a_sweep_make_the_table():
    wide = spec("wide", F32)
    winners = [Winner(wide, digest(wide), SMALL, None, Machine())]
    lock = make_lock([wide], "gemm", ("python",), Records(), winners)
    (table,) = lock.tables
    assert table.rows[0].ratio is None and table.gpu == ""
    assert "# not timed" in texts(lock)["gemm.py"]
    screened = replace(winners[0], how="screened: 1.05 of torch.mm")
    lock = make_lock([wide], "gemm", ("python",), Records(), [screened])
    assert "# screened: 1.05 of torch.mm" in texts(lock)["gemm.py"]


def test_the_label_of_a_spec_without_a_file_is_made_safe():
    loaded = replace(spec("wide", F32), label="tiles.sweep.yaml#12\nint x;")
    lock = make_lock([loaded], "gemm", (), Records())
    assert lock.kernels[0].label == "tiles.sweep.yaml_12_int_x_"
    assert "\nint x" not in texts(lock)["wide.cu"]


def test_runs_from_elsewhere_are_evidence_of_their_source_alone():
    wide = spec("wide", F32)
    run = HardwareRun(
        gpu="NVIDIA H200", driver="580.1", toolkit="13.5.37", measured_on="2026-11-30", problems=3,
        exact=2, worst=(), timings=(),
    )  # fmt: skip
    runs = (Measured("wide", digest(wide), run), Measured("wide", "0123456789ab", run))
    lock = make_lock([wide], "gemm", (), Records(runs=runs))
    assert lock.kernels[0].evidence.runs == (run,)
    assert lock.tables == ()
    assert Records(runs=runs).stale("wide", digest(wide)) == ["0123456789ab"]


def test_bad_winners_are_refused():
    wide, slim, f16 = spec("wide", F32), spec("slim", NARROW), spec("wide")
    one = Winner(wide, digest(wide), BIG, None, H200)
    with pytest.raises(KgenError, match="slim won at 128 x 4096 x 4096 and is not among"):
        make_lock([wide], "gemm", (), Records(), [Winner(slim, "", SMALL, None, H200)])
    with pytest.raises(KgenError, match="slim and wide both won|wide and slim both won"):
        tables_of([one, Winner(slim, digest(slim), BIG, None, H200)])
    assert len(tables_of([one, Winner(f16, digest(f16), BIG, None, H200)])) == 2


# --- the dispatch rule, in Python -----------------------------------------------------------------


def test_a_measured_shape_gets_its_winner():
    gemm = shipping.module(two_kernels())
    assert gemm.pick("sm_90a_f16_f32acc", *BIG) == "wide"
    assert gemm.pick("sm_90a_f16_f32acc", *SMALL) == "slim"


@pytest.mark.parametrize(
    ("shape", "kernel"),
    [
        ((4096, 8192, 8192), "wide"),  # one octave from BIG; five and two from SMALL
        ((128, 4096, 8192), "slim"),
        ((1, 1, 1), "slim"),
        ((0, 0, 0), "slim"),
        ((2**40, 2**40, 2**40), "wide"),
        ((-5, 4096, 4096), "slim"),
    ],
)
def test_another_shape_gets_the_nearest_by_log_sizes(shape, kernel):
    assert shipping.module(two_kernels()).pick("sm_90a_f16_f32acc", *shape) == kernel


@pytest.mark.parametrize(("low", "high"), [("wide", "slim"), ("slim", "wide")])
def test_equally_near_shapes_are_told_apart_by_waves(low, high):
    """512 lies one octave from 256 and from 1024. On 132 SMs 512 x 8192 is one wave of 128 x 256
    tiles and four of 128 x 64; 256 is one and two, 1024 two and eight. So `wide` is nearer, whether
    it won at 256 (0 waves away, against 4) or at 1024 (1 away, against 2).
    """
    specs = {"wide": spec("wide", F32), "slim": spec("slim", NARROW)}
    rows = [(low, (256, 8192, 512)), (high, (1024, 8192, 512))]
    winners = [Winner(specs[name], "", shape, None, H200) for name, shape in rows]
    lock = make_lock(specs.values(), "gemm", ("python",), Records(), winners)
    assert shipping.module(lock).pick("sm_90a_f16_f32acc", 512, 8192, 512) == "wide"


def test_of_shapes_that_nothing_tells_apart_the_first_is_taken():
    wide, slim = spec("wide", F32), spec("slim", NARROW)
    rows = [(slim, (64, 64, 64)), (wide, (64, 64, 256))]
    winners = [Winner(loaded, "", shape, None, H200) for loaded, shape in rows]
    lock = make_lock([wide, slim], "gemm", ("python",), Records(), winners)
    assert shipping.module(lock).pick("sm_90a_f16_f32acc", 64, 64, 128) == "slim"


@pytest.fixture(scope="module")
def loader(no_toolchain):
    return shipping.module(two_kernels())


@given(value=st.integers(1, 2**31), shift=st.integers(0, 30))
def test_log2_steps_are_those_of_the_logarithm(loader, value, shift):
    steps = loader._log2_steps(value)
    exact = 256 * math.log2(value)
    assert exact - 1.01 <= steps <= exact + 1e-6
    if value << shift <= 2**31:
        assert loader._log2_steps(value << shift) == steps + 256 * shift


ANY = st.integers(-(2**70), 2**70)


@given(m=ANY, n=ANY, k=ANY)
def test_any_shape_has_an_answer(loader, m, n, k):
    assert loader.pick("sm_90a_f16_f32acc", m, n, k) in loader.KERNELS


# --- the loader's view of matrices and streams ----------------------------------------------------


class Array:
    """What cupy and numba offer."""

    def __init__(self, shape, strides, typestr="<f2"):
        self.__cuda_array_interface__ = {
            "data": (0x1000, False),
            "shape": shape,
            "strides": strides,
            "typestr": typestr,
            "version": 3,
        }


def test_matrices_of_cuda_array_interface_and_torch(loader):
    assert loader.matrix(Array((3, 8), None)) == (0x1000, (3, 8), (8, 1), 2, "f16")
    assert loader.matrix(Array((3, 8), (32, 2))) == (0x1000, (3, 8), (16, 1), 2, "f16")
    assert loader.matrix(Array((3, 8), (2, 6), "|V2")) == (0x1000, (3, 8), (1, 3), 2, "")
    torch = pytest.importorskip("torch")
    x = torch.zeros(3, 16, dtype=torch.bfloat16)[:, :8]
    assert loader.matrix(x) == (x.data_ptr(), (3, 8), (16, 1), 2, "bf16")
    with pytest.raises(TypeError, match="not a matrix in device memory: list"):
        loader.matrix([1, 2])


def test_streams_of_every_kind(loader):
    class Protocol:
        def __cuda_stream__(self):
            return 0, 7

    class Torch:
        cuda_stream = 8

    class Cupy:
        ptr = 9

    streams = [None, 5, Protocol(), Torch(), Cupy()]
    assert [loader.stream_address(s) for s in streams] == [0, 5, 7, 8, 9]


@pytest.mark.parametrize(
    ("a", "b", "d", "text"),
    [
        ((64, 64), (64, 32), (64, 64), "want D = A @ B.T"),
        ((64, 64), (64, 64), (64, 65), "want D = A @ B.T"),
        ((64,), (64, 64), (64, 64), "a matrix has two dimensions, not 1"),
    ],
)
def test_matrices_that_do_not_fit_are_refused(loader, a, b, d, text):
    library = object.__new__(loader.Library)
    with pytest.raises(ValueError, match=text):
        library.launch("wide", Array(a, None), Array(b, None), Array(d, None))


def test_matrices_of_another_type_or_layout_are_refused(loader):
    library = object.__new__(loader.Library)
    good = Array((64, 64), None)
    with pytest.raises(ValueError, match="elements of a must be f16, not 4 bytes"):
        library.launch("wide", Array((64, 64), None, "<f4"), good, good)
    with pytest.raises(ValueError, match="elements of b must be f16, not bf16"):
        library.launch("wide", good, loader.Matrix(1, (64, 64), (64, 1), 2, "bf16"), good)
    with pytest.raises(ValueError, match="wide: a must be contiguous along dimension 1"):
        library.launch("wide", Array((64, 64), (2, 128)), good, good)


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["9x", "a b", "../x", "int", "x;y", "", "wide", "WIDE"])
def test_a_bad_package_name_is_refused(name):
    with pytest.raises(KgenError, match="name"):
        shipment([spec("wide", F32)], name=name)


def test_two_kernels_of_one_name_are_refused():
    with pytest.raises(KgenError, match="Wide is also the name of wide.yaml"):
        shipment([spec("wide", F32), spec("Wide", NARROW)])


@pytest.mark.parametrize(
    ("kernels", "symbol"),
    [
        (("x1", "x1_launch"), "x1_launch"),
        (("x1", "x1_status_string"), "x1_status_string"),
        (("x1", "gemm_find"), "gemm_find"),
        (("x1", "gemm_kernels"), "gemm_kernels"),
    ],
)
def test_two_definitions_of_one_symbol_are_refused(kernels, symbol):
    with pytest.raises(KgenError, match=f" and .* both define the C symbol {symbol}\n    fix: "):
        texts(shipment([spec(name, F32) for name in kernels]))


def test_names_that_only_look_alike_are_shipped():
    kernels = [spec(name, F32) for name in ("x1", "x1_ok", "x1_status", "gemm_kernel", "x1_a")]
    assert {f"{k.spec.name}.cu" for k in kernels} < texts(shipment(kernels)).keys()


def test_a_file_is_not_written_twice():
    lock = shipment([spec("wide", F32)])
    bad = lock.model_copy(update={"name": "wide"})
    with pytest.raises(KgenError, match="wide.h would be written twice"):
        texts(bad)


# --- the folder -----------------------------------------------------------------------------------


def listing(path: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in path.iterdir()}


def test_a_new_folder_and_the_same_again(tmp_path):
    lock, to = two_kernels(), tmp_path / "deep" / "kernels"
    states = folder.write(lock, to)
    assert set(states.values()) == {"written"}
    assert set(states) == set(listing(to))
    assert dump_lock(load_lock(to)) == dump_lock(lock)
    assert set(folder.write(lock, to).values()) == {"unchanged"}


@pytest.mark.parametrize("name", ["notes.md", ".hidden", "gemm.h"])
def test_a_folder_of_somebody_elses_is_left_alone(tmp_path, name):
    (tmp_path / name).write_text("mine\n")
    with pytest.raises(KgenError, match=f"not empty, and holds no {LOCK_NAME}"):
        folder.write(two_kernels(), tmp_path)
    assert listing(tmp_path) == {name: b"mine\n"}


def test_a_foreign_file_in_the_way_stops_before_anything_is_written(tmp_path):
    folder.write(shipment([spec("wide", F32)]), tmp_path)
    (tmp_path / "slim.cu").write_text("mine\n")
    before = listing(tmp_path)
    with pytest.raises(KgenError, match="slim.cu: not of an earlier shipment"):
        folder.write(two_kernels(), tmp_path)
    assert listing(tmp_path) == before


def test_foreign_files_beside_a_shipment_stay(tmp_path):
    folder.write(two_kernels(), tmp_path)
    (tmp_path / "OWNERS").write_text("us\n")
    folder.write(shipment([spec("wide", F32)]), tmp_path)
    assert (tmp_path / "OWNERS").read_text() == "us\n"


def test_what_is_no_longer_shipped_goes_unless_it_was_edited(tmp_path):
    folder.write(two_kernels(), tmp_path)
    (tmp_path / "slim.h").write_text("edited\n")
    states = folder.write(shipment([spec("wide", F32)]), tmp_path)
    assert (states["slim.cu"], states["slim.h"]) == ("removed", "kept, because it was edited")
    assert not (tmp_path / "slim.cu").exists()
    assert (tmp_path / "slim.h").read_text() == "edited\n"


def test_a_link_is_not_written_through(tmp_path):
    to = tmp_path / "kernels"
    folder.write(two_kernels(), to)
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    (to / "gemm.h").unlink()
    (to / "gemm.h").symlink_to(victim)
    with pytest.raises(KgenError, match="gemm.h: a symbolic link"):
        folder.write(two_kernels(), to)
    assert victim.read_text() == "untouched"


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path):
    (tmp_path / "kernels").write_text("a file")
    with pytest.raises(NotADirectoryError) as caught:
        folder.write(two_kernels(), tmp_path / "kernels")
    assert str(caught.value.filename).endswith("kernels")


# --- the lock -------------------------------------------------------------------------------------


def broken(tmp_path: Path, change) -> str:
    """The refusal of a lock whose data `change` has changed."""
    data = json.loads(dump_lock(two_kernels()))
    change(data)
    (tmp_path / LOCK_NAME).write_text(json.dumps(data))
    with pytest.raises(KgenError) as caught:
        texts(load_lock(tmp_path))
    return str(caught.value)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda d: d.update(file={}), "kgen.lock: file: Extra inputs are not permitted"),
        (lambda d: d["kernels"][0].update(nmae="x"), "kgen.lock: kernels.0.nmae: Extra inputs"),
        (lambda d: d.update(schema_version=2), "schema 2 is newer than this kgen reads (1)"),
        (lambda d: d.pop("schema_version"), "not a lock of shipped kernels: no schema_version"),
        (lambda d: d["files"].update({"../x": "0" * 64}), "no name of a file beside the lock"),
        (lambda d: d["files"].update({"kgen.lock": "0" * 64}), "no name of a file beside"),
        (lambda d: d["files"].update({"gemm.h": "0" * 63}), "kgen.lock: files.gemm.h: String"),
        (lambda d: d["tables"][0].update(name="x; int y"), "kgen.lock: tables.0.name: String"),
        (lambda d: d["kernels"][0].update(label="x\ny"), "kgen.lock: kernels.0.label: String"),
        (lambda d: d.update(name="a b"), "kgen.lock: name: String should match"),
        (lambda d: d.update(kernels=[]), "kgen.lock: kernels: Tuple should have at least 1 item"),
        (lambda d: d["tables"][0]["rows"][0].update(kernel="x"), "no kernel x is shipped"),
        (lambda d: d["kernels"][0]["spec"].update(name="x"), "kernel slim: its spec is of x"),
        (lambda d: d["kernels"][0]["spec"].update(stage=3), "kernel slim: its spec is refused"),
    ],
)
def test_a_bad_lock_is_refused_by_file_and_field(tmp_path, change, text):
    assert text in broken(tmp_path, change)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\0", "[" * 100_000])
def test_what_is_no_lock_is_refused(tmp_path, text):
    (tmp_path / LOCK_NAME).write_text(text)
    with pytest.raises(KgenError, match="not a lock of shipped kernels"):
        load_lock(tmp_path)


def test_a_lock_is_the_whole_source_of_its_folder(tmp_path):
    folder.write(two_kernels(), tmp_path)
    read = load_lock(tmp_path)
    assert {n: t.encode() for n, t in texts(read).items()} == {
        n: b for n, b in listing(tmp_path).items() if n != LOCK_NAME
    }
    assert dump_lock(remake(read).with_files(texts(read))) == dump_lock(read)


def test_a_changed_source_loses_its_evidence_and_keeps_its_rows():
    lock = two_kernels()
    old = lock.model_copy(
        update={
            "kernels": tuple(
                k.model_copy(update={"source_digest": "0" * 12}) if k.name == "wide" else k
                for k in lock.kernels
            ),
            "tables": tuple(
                t.model_copy(
                    update={
                        "rows": tuple(
                            r.model_copy(update={"source_digest": "0" * 12})
                            if r.kernel == "wide"
                            else r
                            for r in t.rows
                        )
                    }
                )
                for t in lock.tables
            ),
        }
    )
    with pytest.raises(KgenError, match="kgen.lock was changed by hand"):
        remake(old)
    new = remake(old.with_files(texts(old)))
    slim, wide = new.kernels
    assert wide.evidence.is_empty and wide.source_digest == lock.kernels[1].source_digest
    assert slim.evidence == lock.kernels[0].evidence
    files = texts(new)
    assert evidence_of(files["wide.cu"]) == ["//   none recorded"]
    assert "// wide: chosen for an earlier source, 000000000000" in files["gemm.cpp"]
    assert "// slim: 0.900 [0.880..0.920] of torch.mm" in files["gemm.cpp"]


# --- the texts ------------------------------------------------------------------------------------


def test_parts_can_be_left_out():
    lock = make_lock([spec("wide", F32)], "gemm", (), Records())
    assert sorted(texts(lock)) == [".clang-format", ".gitattributes", "gemm.cpp", "gemm.h",
                                   "wide.cu", "wide.h"]  # fmt: skip
    lock = make_lock([spec("wide", F32)], "ops", ("torch",), Records())
    assert {"ops.h", "ops.cpp", "ops_torch.cpp"} < set(texts(lock))


@pytest.mark.parametrize("name", ["gemm.h", "gemm.cpp", "gemm.py", "gemm_torch.cpp"])
def test_shipped_texts_are_tidy(name):
    wide, slim, tall = spec("wide", F32), spec("slim", NARROW), spec("tall", TALL)
    for lock in (two_kernels(), shipment([wide, slim, tall])):
        text = texts(lock)[name]
        assert "generated by kgen" in text.splitlines()[0]
        assert text.endswith("\n") and not text.endswith("\n\n")
        for number, line in enumerate(text.splitlines(), 1):
            assert line == line.rstrip() and len(line) <= 100, f"{name}:{number}"
        blank = "\n\n\n\n" if name.endswith(".py") else "\n\n\n"
        assert blank not in text


def test_the_longest_names_keep_lines_short():
    """Kernels and package; CMake and Python are not broken."""
    names = [letter + "_name" + "_of_63_characters" * 3 + "_or_so" for letter in "abc"]
    assert {len(name) for name in names} == {NAME_LENGTH}
    one, two = spec(names[0], F32), spec(names[1], NARROW)
    results = [result(one, {BIG: 1.1}), result(two, {SMALL: 0.9})]
    for file, text in texts(shipment([one, two], results, name=names[2])).items():
        if Path(file).suffix in (".h", ".cpp", ".cu"):
            for number, line in enumerate(text.splitlines(), 1):
                assert len(line) <= LINE_LENGTH, f"{file}:{number}: {line}"


def test_a_record_cannot_break_the_code():
    """Quotes, backslashes and line ends of a result file stay inside literals and comments."""
    wide = spec("wide", F32)
    evil = 'H"2\\00\n*/ int x; //'
    lock = shipment([wide], [result(wide, {BIG: 1.1}, gpu=evil)])
    gemm = shipping.module(lock)
    assert gemm.TABLES["sm_90a_f16_f32acc"].gpu == "H'2/00/n*/ int x; //"
    for name in ("gemm.h", "gemm.cpp"):
        for line in texts(lock)[name].splitlines():
            assert "int x" not in line or line.lstrip().startswith(("//", '"')), line


# --- records of the emulator ----------------------------------------------------------------------


def test_a_record_of_the_emulator_is_written_and_read_again(tmp_path):
    def case(label, schedules, verdict="clean", wrong=0):
        shape = SimpleNamespace(label=label)
        report = SimpleNamespace(schedules=schedules, verdict=verdict, outputs_agree=True)
        return EmulatedCase(shape, report, wrong, "")  # type: ignore[arg-type]

    cases = [case("a", ("early", "late")), case("b", ("early", "starve:3"), wrong=1)]
    record = emulator_record("wide", "0123456789ab", "error", cases, left_out=3)
    assert (record.right, record.runs, record.named_shapes_left_out) == (1, 4, 3)
    assert record.schedules == ("early", "late", "starve:3")
    assert record.shapes == ("a", "b")
    path = save_emulator_record(record, tmp_path / "new")
    assert path.name == "wide.json"
    assert load_emulator_records(path.parent) == (record,)
    path.write_text(path.read_text().replace('"runs"', '"rnus"'))
    with pytest.raises(KgenError, match=r"wide.json: rnus: Extra inputs"):
        load_emulator_records(path.parent)
