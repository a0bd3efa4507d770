"""The operators, without a GPU as far as that goes, and on one."""

import os
import subprocess
import sys

import consumer_gemm
import pytest
import torch

OPS = {
    "hopper_v6": torch.float16,
    "hopper_f16_f32acc": torch.float16,
    "hopper_bf16_f32acc": torch.bfloat16,
    "sm_90a_f16_f16acc": torch.float16,
    "sm_90a_f16_f32acc": torch.float16,
    "sm_90a_bf16_f32acc": torch.bfloat16,
}


def meta(*shape, dtype=torch.float16):
    return torch.empty(*shape, dtype=dtype, device="meta")


@pytest.mark.parametrize("name", OPS)
def test_shape_and_type(name):
    d = getattr(torch.ops.gemm, name)(meta(3, 8, dtype=OPS[name]), meta(5, 8, dtype=OPS[name]))
    assert (d.shape, d.dtype) == ((3, 5), OPS[name])


def test_the_output_may_be_given():
    d = meta(3, 5)
    assert torch.ops.gemm.hopper_v6.out(meta(3, 8), meta(5, 8), d=d) is d


def test_torch_compile_traces_it():
    compiled = torch.compile(consumer_gemm.linear, backend="eager", fullgraph=True, dynamic=True)
    assert compiled(meta(3, 8), meta(5, 8)).shape == (3, 5)


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [
        (meta(3, 8, dtype=torch.float32), meta(5, 8), "a must be Half, not Float"),
        (meta(3, 8), meta(5, 8, dtype=torch.bfloat16), "b must be Half, not BFloat16"),
        (meta(3, 8), meta(5, 4), "a has 8 columns, b has 4"),
        (meta(8), meta(5, 8), "a must be a matrix, not of 1 dimensions"),
    ],
)
def test_what_does_not_fit_is_refused(a, b, text):
    with pytest.raises(RuntimeError, match=text):
        torch.ops.gemm.hopper_v6(a, b)


def test_the_cpu_has_no_kernel():
    with pytest.raises(NotImplementedError, match="CPU"):
        torch.ops.gemm.hopper_v6(torch.zeros(3, 8).half(), torch.zeros(5, 8).half())


# --- on a GPU -------------------------------------------------------------------------------------


def why_not():
    if not torch.cuda.is_available():
        return "torch sees no GPU"
    name, capability = torch.cuda.get_device_name(), torch.cuda.get_device_capability()
    return "" if capability == (9, 0) else f"{name} is not of compute capability 9.0"


gpu = pytest.mark.skipif(bool(why_not()), reason=why_not())


def integers(rows, cols, dtype):
    return torch.randint(-2, 3, (rows, cols), device="cuda").to(dtype)


@gpu
@pytest.mark.parametrize("shape", [(300, 520, 136), (1, 8, 64), (129, 264, 0), (0, 8, 8)])
@pytest.mark.parametrize("name", OPS)
def test_products_of_integers_are_exact(name, shape):
    m, n, k = shape
    a, b = integers(m, k, OPS[name]), integers(n, k, OPS[name])
    want = (a.double() @ b.double().t()).to(OPS[name])
    assert torch.equal(getattr(torch.ops.gemm, name)(a, b), want)
    d = torch.full((m, n), float("nan"), device="cuda", dtype=OPS[name])
    assert getattr(torch.ops.gemm, name).out(a, b, d=d) is d
    assert torch.equal(d, want)


@gpu
def test_a_view_with_padded_rows_is_taken_as_it_lies():
    a = integers(64, 144, torch.float16)[:, :128]
    b = integers(72, 128, torch.float16)
    assert torch.equal(consumer_gemm.linear(a, b), (a.double() @ b.double().t()).half())


@gpu
def test_what_the_launcher_refuses_is_an_error_with_its_text():
    a, b = integers(64, 64, torch.float16), integers(64, 64, torch.float16)
    odd = integers(64, 65, torch.float16)[:, :64]
    with pytest.raises(RuntimeError, match="lda must be a multiple of 8"):
        consumer_gemm.linear(odd, b)
    with pytest.raises(RuntimeError, match="contiguous along dimension 1"):
        consumer_gemm.linear(a.t(), b)
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.ops.gemm.hopper_v6.out(a, b, d=a)


@gpu
def test_it_runs_on_the_current_stream():
    a, b = integers(512, 4096, torch.float16), integers(512, 4096, torch.float16)
    new = integers(512, 4096, torch.float16)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)  # a changes long after the launch was enqueued
        a.copy_(new)
        d = consumer_gemm.linear(a, b)
    stream.synchronize()
    assert torch.equal(d, (new.double() @ b.double().t()).half())


FIRST_CALL = """
import sys
import consumer_gemm, torch
op, dtype = getattr(torch.ops.gemm, sys.argv[1]), getattr(torch, sys.argv[2])
a = torch.randint(-2, 3, (300, 200), device="cuda").to(dtype)
b = torch.randint(-2, 3, (264, 200), device="cuda").to(dtype)
given = torch.full((300, 264), float("nan"), device="cuda", dtype=dtype)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    made = op(a, b)
    op.out(a, b, d=given)
for _ in range(2):
    a.copy_(torch.randint(-2, 3, a.shape, device="cuda"))
    b.copy_(torch.randint(-2, 3, b.shape, device="cuda"))
    given.fill_(float("nan"))
    made.fill_(float("nan"))
    graph.replay()
    torch.cuda.synchronize()
    want = (a.double() @ b.double().t()).to(dtype)
    assert torch.equal(made, want) and torch.equal(given, want)
print("replayed")
"""


@gpu
@pytest.mark.parametrize("name", OPS)
def test_the_first_call_of_a_process_may_be_captured(name):
    """No warm-up, capture in global mode, both forms of the operator, two replays on new data."""
    dtype = str(OPS[name]).removeprefix("torch.")
    command = [sys.executable, "-X", "faulthandler", "-c", FIRST_CALL, name, dtype]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    ended = f"exit status {done.returncode}\n{done.stdout}{done.stderr}"
    assert (done.returncode, done.stdout) == (0, "replayed\n"), ended
