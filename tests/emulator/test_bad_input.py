"""Input that cannot be run is refused with its line or field; what is not modelled makes the
verdict incomplete.
"""

from dataclasses import replace

import pytest

from emulator import mini, one_kernel
from kgen.cli import emulator_commands
from kgen.emu import dump_launch, emulate
from kgen.emu.launch import Raw, Scalar
from kgen.errors import EmulatorError


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"block": (192, 1, 1)}, "block: 192 threads, but the kernel allows 160"),
        ({"block": (2048, 1, 1)}, "block"),
        ({"grid": (0, 1, 1)}, r"grid\[0\]"),
        ({"grid": (40, 40, 1)}, "grid: 1600 CTAs, the emulator holds 1024"),
        ({"grid": (3, 1, 1), "cluster": (2, 1, 1)}, "2 does not divide grid"),
        ({"dynamic_shared_bytes": 232449}, "dynamic_shared_bytes"),
        ({"kernel": "other"}, "kernel: no .entry 'other' in this module, only mini"),
    ],
)
def test_wrong_launch(changes, message):
    with pytest.raises(EmulatorError, match=message):
        emulate(mini.PTX, replace(mini.launch(), **changes))


def test_missing_argument():
    launch = mini.launch()
    with pytest.raises(EmulatorError, match="arguments: 3 arguments for the 4 parameters of mini"):
        emulate(mini.PTX, replace(launch, arguments=launch.arguments[:3]))


def test_argument_of_the_wrong_size():
    launch = mini.launch()
    with pytest.raises(
        EmulatorError, match=r"arguments\[3\]: 8 bytes given, parameter steps has 4"
    ):
        emulate(mini.PTX, replace(launch, arguments=(*launch.arguments[:3], Scalar("u64", 6))))
    with pytest.raises(
        EmulatorError, match=r"arguments\[3\]: a tensor map has 128 bytes, steps has 4"
    ):
        emulate(mini.PTX, replace(launch, arguments=(*launch.arguments[:3], launch.arguments[0])))


def test_tensor_map_that_the_driver_refuses():
    launch = mini.launch()
    wide = replace(launch.arguments[0], box=(128, 64))  # type: ignore[type-var]
    with pytest.raises(
        EmulatorError, match=r"box\[0\]: 128 x 2 B = 256 B is wider than the 128B swizzle"
    ):
        emulate(mini.PTX, replace(launch, arguments=(wide, *launch.arguments[1:])))


def test_static_and_dynamic_shared_memory_together_over_the_limit():
    source = one_kernel.text("", shared=".shared .align 16 .b8 s[40000];")
    launch = replace(one_kernel.launch(), dynamic_shared_bytes=200000)
    with pytest.raises(
        EmulatorError, match="200000 and 40000 static bytes are over the limit of 232448"
    ):
        emulate(source, launch)


def test_required_block_and_cluster():
    source = one_kernel.text("").replace("\n{", "\n.reqntid 64\n{", 1)
    with pytest.raises(EmulatorError, match="the kernel requires"):
        emulate(source, one_kernel.launch(32))
    source = one_kernel.text("").replace("\n{", "\n.reqnctapercluster 2\n{", 1)
    with pytest.raises(EmulatorError, match="cluster"):
        emulate(source, one_kernel.launch(32))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fast", "'fast' is none of early"),
        ("random:²", "'random:²' is none of early"),
        ("random:" + "9" * 5000, "is none of early"),
        ("starve:-1", "'starve:-1' is none of early"),
        ("starve:99", "starve:99: a CTA of this launch has 5 warps"),
        ("starve:5", "starve:5: a CTA of this launch has 5 warps"),
        ("", "an empty name"),
    ],
)
def test_unknown_schedule(name, message):
    with pytest.raises(EmulatorError, match=f"schedules: .*{message}|schedules: {message}"):
        emulate(mini.PTX, mini.launch(), ("early", name))


def test_no_schedule_is_not_the_default_ones(tmp_path):
    """An empty variable of a script must not run something else."""
    (tmp_path / "k.ptx").write_text(one_kernel.text(""))
    dump_launch(one_kernel.launch(), tmp_path / "k.yaml")
    with pytest.raises(EmulatorError, match="schedules: an empty name"):
        emulator_commands.emulate(tmp_path / "k.ptx", tmp_path / "k.yaml", schedules="")


@pytest.mark.parametrize("steps", [0, -1])
def test_no_steps(steps):
    with pytest.raises(EmulatorError, match=f"max_steps: {steps} is not positive"):
        emulate(mini.PTX, mini.launch(), ("early",), steps)


@pytest.mark.parametrize(
    ("instruction", "names"),
    [
        ("tcgen05.wait::ld.sync.aligned;", "instruction tcgen05.wait::ld.sync.aligned"),
        (
            "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 32;",
            "instruction tcgen05.dealloc.cta_group::1",
        ),
        ("frobnicate.b32 %r1, %r0;", "instruction frobnicate.b32"),
        ("add.weird.u32 %r1, %r0, 1;", "instruction add.weird.u32"),
        ("mbarrier.arrive.weird.shared::cta.b64 _, [%r1];", "modifier .weird"),
        (
            "cp.async.bulk.tensor.2d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r0, %r0}], [%r1];",  # noqa: E501
            "modifier .im2col",
        ),
        (
            "wgmma.mma_async.sync.aligned.m64n12k16.f32.bf16.bf16 {%f0,%f1,%f2,%f3,%f4,%f5}, %rd1, %rd2, %p1, 1, 1, 0, 0;",  # noqa: E501
            "no such shape",
        ),
        (
            "wgmma.mma_async.sync.aligned.m64n8k16.f16.bf16.bf16 {%r1,%r2}, %rd1, %rd2, %p1, 1, 1, 0, 0;",  # noqa: E501
            "does not accumulate",
        ),
        ("call.uni helper, (%r0);", "instruction call.uni"),
        ("mov.u32 %r1, %envreg3;", "instruction mov.u32"),
        ("ld.local.u32 %r1, [%rd1];", "modifier .local"),
    ],
)
def test_what_is_not_modelled_is_incomplete(instruction, names):
    report = one_kernel.report(f"    {instruction}")
    assert report.verdict == "incomplete", str(report)
    (finding,) = report.findings
    assert finding.kind == "unmodelled" and names in finding.text


def test_unmodelled_code_that_is_not_reached_does_not_stop_the_run():
    body = "    setp.lt.u32 %p1, %r0, 99;\n    @%p1 bra END;\n    frobnicate.b32 %r1, %r0;\nEND:\n"
    report = one_kernel.report(body)
    assert report.verdict == "clean"
    assert any("frobnicate" in gap for gap in report.coverage.gaps())


def test_memory_outside_every_array():
    report = one_kernel.report("    st.global.u64 [%rd0+512], %rd1;")
    (finding,) = report.findings
    assert finding.kind == "global-bounds"
    assert "behind the end of out" in finding.text
    assert "no array" in str(one_kernel.report("    st.global.u64 [%rd1], %rd1;"))


def test_misaligned_access():
    assert {f.kind for f in one_kernel.report("    st.global.u32 [%rd0+2], %r0;").findings} == {
        "alignment"
    }


def test_raw_arguments():
    """A structure by value; 4 bytes of it read back."""
    body = "    ld.param.u32 %r1, [pair+4];\n    cvt.u64.u32 %rd9, %r1;\n    st.global.u64 [%rd0], %rd9;"  # noqa: E501
    launch = replace(
        one_kernel.launch(), arguments=(*one_kernel.launch().arguments, Raw("0100000002000000"))
    )
    report = emulate(
        one_kernel.text(body, params=".param .align 4 .b8 pair[8]"), launch, ("early",)
    )
    assert report.outputs["out"].tolist() == [2] * 32
