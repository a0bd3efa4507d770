"""The shipped files as texts: a function of a lock and of kgen's templates, of nothing else.

The classes here are all that the templates in templates/ship see. Of a plan they use what every
schedule has: name, target and tile; the operands are the spec's.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from kgen._version import __version__
from kgen.arch import ARCHS
from kgen.dtypes import dtype
from kgen.errors import KgenError, SpecError, printable
from kgen.plan import KernelPlan, lower
from kgen.render import Rendered, fill, render, with_evidence
from kgen.run.grid import FLAG_BYTES
from kgen.ship.evidence import evidence_lines
from kgen.ship.lock import Lock, LockedKernel, Part, Row, Table
from kgen.spec import LoadedSpec, parse_spec

# What each part adds to kernels and dispatch tables; {} is the package's name.
_PARTS: dict[Part, dict[str, str]] = {
    "cmake": {"CMakeLists.txt": "ship/cmake.j2"},
    "python": {"{}.py": "ship/loader.py.j2"},
    "torch": {"{}_torch.cpp": "ship/torch.cpp.j2"},
}
_DISPATCH = {"{}.h": "ship/dispatch.h.j2", "{}.cpp": "ship/dispatch.cpp.j2"}
_ALWAYS = {
    ".gitattributes": "ship/gitattributes.j2",
    ".clang-format": "ship/clang_format.j2",
}


@dataclass(frozen=True)
class Operand:
    """One matrix as a caller passes it, contiguous along axis `inner` (0 or 1)."""

    name: str
    dtype: str
    torch_type: str
    bytes: int
    inner: int
    contiguous: str  # the extent that `inner` has: M, N or K


@dataclass(frozen=True)
class Kernel:
    """One kernel as the bindings see it. flag_bytes, part_bytes: of each CTA in a workspace."""

    index: int
    name: str
    source_digest: str
    target: str
    accumulator: str
    a: Operand
    b: Operand
    d: Operand
    tile_m: int
    tile_n: int
    flag_bytes: int
    part_bytes: int


@dataclass(frozen=True)
class Choice:
    """A row of a dispatch table; note says how it was ranked."""

    m: int
    n: int
    k: int
    kernel: Kernel
    note: str


@dataclass(frozen=True)
class Dispatch:
    """A dispatch table. sm_count turns tiles into waves."""

    name: str
    like: Kernel  # any kernel of the table: they all take the same operands
    sm_count: int
    kgen: str
    gpu: str
    driver: str
    toolkit: str
    ranked_on: str
    choices: tuple[Choice, ...]


@dataclass(frozen=True)
class Operator:
    """One name that a binding offers: a kernel, or a dispatch table."""

    name: str
    like: Kernel
    is_table: bool


@dataclass(frozen=True)
class Source:
    """One `.cu` to compile for its own target."""

    name: str
    target: str
    architecture: str  # `90a`


@dataclass(frozen=True)
class Package:
    """What a folder of shipped kernels holds. kernels: those that take A, B and D alone."""

    name: str
    version: str
    sources: tuple[Source, ...]
    kernels: tuple[Kernel, ...]
    tables: tuple[Dispatch, ...]
    targets: str

    @property
    def example(self) -> str:
        """A name to show in a text."""
        return self.operators[0].name

    @property
    def operators(self) -> tuple[Operator, ...]:
        """Tables and kernels alike."""
        tables = [Operator(t.name, t.like, True) for t in self.tables]
        return (*tables, *(Operator(k.name, k, False) for k in self.kernels))


def load_kernel(kernel: LockedKernel) -> LoadedSpec:
    """The spec that a lock holds. Raises SpecError naming the kernel."""
    try:
        loaded = parse_spec(json.dumps(kernel.spec), kernel.label)
    except SpecError as error:
        raise KgenError(f"kgen.lock: kernel {kernel.name}: its spec is refused\n{error}") from error
    if loaded.spec.name != kernel.name:
        raise KgenError(f"kgen.lock: kernel {kernel.name}: its spec is of {loaded.spec.name}")
    return loaded


def texts(lock: Lock) -> dict[str, str]:
    """File name to text of everything but the lock itself, in order of the names.

    Evidence and ratios of a source that the templates no longer render are left out.
    Raises  KgenError if a spec in the lock is refused, a table is not of its kernels, or two
        names lead to one C symbol
    """
    files: dict[str, str] = {}
    kernels: dict[str, Kernel] = {}
    sources: list[Source] = []
    for locked in lock.kernels:
        loaded = load_kernel(locked)
        plan = lower(loaded)
        rendered = render(plan)
        sources.append(Source(plan.name, plan.target, plan.target.removeprefix("sm_")))
        if takes_operands_alone(plan):
            kernels[locked.name] = _kernel(len(kernels), loaded, plan, rendered)
        files |= rendered.files
        if locked.source_digest == rendered.digest:
            rows = evidence_lines(locked.evidence, rendered.digest)
            files[f"{plan.name}.cu"] = with_evidence(rendered.source, rows)
    package = _package(lock, sources, kernels)
    templates = dict(_ALWAYS)
    for part in lock.parts:
        if kernels or part == "cmake":
            templates |= _PARTS[part]
    if kernels:
        templates |= _DISPATCH
    for name, template in templates.items():
        file = name.format(lock.name)
        if file in files:
            raise KgenError(f"{file} would be written twice; choose another --name")
        files[file] = fill(template, p=package)
    _require_own_symbols(lock, files)
    return dict(sorted(files.items()))


def _require_own_symbols(lock: Lock, files: dict[str, str]) -> None:
    """Raises KgenError for a C symbol with two definitions, which no linker takes.

    A header declares all that its source defines but the kernel itself.
    """
    owners = {kernel.name: kernel.name for kernel in lock.kernels}
    for owner in (*owners, lock.name):
        header = re.sub("//.*", "", files.get(f"{owner}.h", ""))
        for symbol in sorted(set(re.findall(rf"\b{owner}_\w+(?=[(\[;])", header))):
            if symbol in owners:
                raise KgenError(
                    f"{owners[symbol]} and {owner} both define the C symbol {symbol}\n"
                    "    fix: another name for one of them"
                )
            owners[symbol] = owner


def takes_operands_alone(plan: KernelPlan) -> bool:
    """Whether the launch takes A, B and D and nothing else: what tables and bindings can call.

    A kernel that takes scales, too, is shipped as a source with its own header.
    """
    return not plan.takes_scales and not plan.takes_global_scale


def _package(lock: Lock, sources: list[Source], kernels: dict[str, Kernel]) -> Package:
    for table in lock.tables:
        for row in table.rows:
            if row.kernel not in kernels:
                raise KgenError(f"kgen.lock: table {table.name}: no kernel {row.kernel} is shipped")
    return Package(
        name=lock.name,
        version=__version__,
        sources=tuple(sources),
        kernels=tuple(kernels.values()),
        tables=tuple(_dispatch(table, kernels) for table in lock.tables),
        targets=", ".join(sorted({source.target for source in sources})),
    )


def _kernel(index: int, loaded: LoadedSpec, plan: KernelPlan, rendered: Rendered) -> Kernel:
    gemm = loaded.spec.gemm
    rule = plan.resident if plan.cuts_tiles else None
    return Kernel(
        index=index,
        name=plan.name,
        source_digest=rendered.digest,
        target=plan.target,
        accumulator=gemm.accumulator,
        a=_operand("a", gemm.a.dtype, gemm.a.major, "m", "k"),
        b=_operand("b", gemm.b.dtype, gemm.b.major, "n", "k"),
        d=_operand("d", gemm.d.dtype, gemm.d.major, "m", "n"),
        tile_m=plan.tile[0],
        tile_n=plan.tile[1],
        flag_bytes=rule.flags * FLAG_BYTES if rule else 0,
        part_bytes=rule.part_bytes if rule else 0,
    )


_TORCH = {
    "f16": "at::kHalf",
    "bf16": "at::kBFloat16",
    "f32": "at::kFloat",
    "tf32": "at::kFloat",
    "e4m3": "at::kFloat8_e4m3fn",
    "e5m2": "at::kFloat8_e5m2",
    "s8": "at::kChar",
    "s32": "at::kInt",
}


def _operand(name: str, type_name: str, major: str, rows: str, cols: str) -> Operand:
    if type_name not in _TORCH:
        raise KgenError(f"{name}: {type_name} has no binding yet, so it is not shipped")
    inner = (rows, cols).index(major)
    return Operand(
        name=name,
        dtype=type_name,
        torch_type=_TORCH[type_name],
        bytes=dtype(type_name).bytes,
        inner=inner,
        contiguous=major.upper(),
    )


def _dispatch(table: Table, kernels: dict[str, Kernel]) -> Dispatch:
    like = kernels[table.rows[0].kernel]
    named = (("", table.gpu), ("driver ", table.driver), ("CUDA ", table.toolkit))
    words = [f"{word}{_quotable(value)}" for word, value in named if value]
    return Dispatch(
        name=table.name,
        like=like,
        sm_count=ARCHS[like.target].sm_count,
        kgen=_quotable(table.kgen),
        gpu=_quotable(table.gpu),
        driver=_quotable(table.driver),
        toolkit=_quotable(table.toolkit),
        ranked_on=", ".join(words) or "nothing: no timing was recorded",
        choices=tuple(_choice(row, kernels[row.kernel]) for row in table.rows),
    )


def _choice(row: Row, kernel: Kernel) -> Choice:
    note = _quotable(row.how) or "not timed"
    if row.source_digest != kernel.source_digest:
        note = f"chosen for an earlier source, {_quotable(row.source_digest)}"
    elif row.ratio:
        r = row.ratio
        note = f"{r.median:.3f} [{r.low:.3f}..{r.high:.3f}] of {_quotable(r.baseline)}"
    return Choice(row.m, row.n, row.k, kernel, note)


def _quotable(text: str) -> str:
    """A text from a record that may stand in a string literal or in a comment of C and Python."""
    return printable(text).replace("\\", "/").replace('"', "'")
