"""What several tests share: a spec to change, and short ways to a plan, a text or a refusal."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kgen.errors import KgenError, SpecError
from kgen.plan import KernelPlan, lower
from kgen.render import render
from kgen.spec import parse_spec

ROOT = Path(__file__).resolve().parents[1]

# specs/hopper/v6.yaml without its comments and a_order, so that line numbers here stay put.
V6 = """\
name: sample
target: sm_90a
gemm:
  a: {dtype: f16, major: k}
  b: {dtype: f16, major: k}
  d: {dtype: f16, major: n}
  accumulator: f16
schedule:
  kind: wgmma_ws
  tile: {m: 256, n: 256, k: 64}
  consumers: 4
  stages: 3
  producer: warp
  release: previous
  raster: {along: n, group: 8}
  l2: {promotion_bytes: 128}
  epilogue: {kind: tma_turns, store_buffers: 1}
verify:
  shapes: [[512, 512, 256], [8192, 8192, 8192]]
"""

# f32 accumulation on the tile of specs/hopper/bf16_f32acc.yaml.
F32 = {
    "accumulator: f16": "accumulator: f32",
    "m: 256": "m: 128",
    "consumers: 4": "consumers: 2",
}


def pytest_configure() -> None:
    """Ctrl-C works in the processes that tests start, also where these run in the background.

    A shell without job control starts background jobs with the signal ignored, and a process passes
    that on to its children.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def changed(changes: dict[str, str] | None = None, text: str = V6) -> str:
    """`text` with every key of `changes`, found exactly once, replaced by its value."""
    for old, new in (changes or {}).items():
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in the spec"
        text = text.replace(old, new)
    return text


@pytest.fixture
def specs_folder() -> Path:
    """The shipped specs of this checkout."""
    return ROOT / "specs"


@pytest.fixture
def generated_folder() -> Path:
    """The committed output of the shipped specs."""
    return ROOT / "generated"


@pytest.fixture
def templates_folder() -> Path:
    """The templates of this checkout."""
    return ROOT / "templates"


@pytest.fixture
def v6() -> Callable[..., str]:
    """Text of the V6 spec with parts replaced: `v6({"stages: 3": "stages: 4"})`."""
    return changed


@pytest.fixture
def plan_of() -> Callable[..., KernelPlan]:
    """Plan of the V6 spec with parts replaced."""
    return lambda changes=None: lower(parse_spec(changed(changes), "v6.yaml"))


@pytest.fixture
def source_of() -> Callable[..., str]:
    """Rendered `.cu` of the V6 spec with parts replaced."""
    return lambda changes=None: render(lower(parse_spec(changed(changes), "v6.yaml"))).source


@pytest.fixture
def refusal() -> Callable[..., str]:
    """Text of the error that a spec text, or V6 with parts replaced, is refused with."""

    def refuse(spec: str | dict[str, str], error: type[KgenError] = SpecError) -> str:
        text = changed(spec) if isinstance(spec, dict) else spec
        with pytest.raises(error) as caught:
            lower(parse_spec(text, "v6.yaml"))
        assert type(caught.value) is error
        return str(caught.value)

    return refuse


@pytest.fixture
def f32() -> dict[str, str]:
    """Changes that turn V6 into an f32-accumulating kernel with two consumers."""
    return dict(F32)


@pytest.fixture
def code_only() -> Callable[[str], str]:
    """CUDA text without comments, string contents and preprocessor lines, on the same lines."""

    def strip(source: str) -> str:
        token = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
        text = token.sub(lambda m: '""' if m[0][0] == '"' else "", source)
        return re.sub(r"^#[^\n]*$", "", text, flags=re.MULTILINE)

    return strip


@pytest.fixture(scope="module")
def no_toolchain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A machine without compilers and with an empty cache: nothing is built."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("KGEN_TOOLCHAIN_DIR", "KGEN_CACHE"):
            patch.setenv(name, str(tmp_path_factory.mktemp("nothing")))
        yield
