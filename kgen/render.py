"""Plan to text: the Jinja environment, the PTX wrappers a kernel uses, and its header. Pure.

Knows nothing of specs or hardware; every number comes from the plan.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateError, meta

from kgen._version import __version__
from kgen.errors import RenderError
from kgen.lines import LINE_LENGTH, wrap
from kgen.paths import data_folder
from kgen.plan import KernelPlan

EVIDENCE_BEGIN = "// evidence (about a build; not part of the source digest)"
EVIDENCE_END = "// end of evidence"
NO_EVIDENCE = "//   none recorded"

_C_TEMPLATES = (".h.j2", ".cpp.j2")
_USE = re.compile(r"\bptx::(\w+)")


@dataclass(frozen=True)
class Rendered:
    """The text of one kernel: `<name>.cu` and `<name>.h`."""

    name: str
    source: str
    header: str

    @property
    def digest(self) -> str:
        """Digest of the code, header comment left out."""
        return source_digest(self.source)

    @property
    def files(self) -> dict[str, str]:
        """File name to text."""
        return {f"{self.name}.cu": self.source, f"{self.name}.h": self.header}


def render(plan: KernelPlan) -> Rendered:
    """The kernel's text; the same plan gives the same bytes.

    Raises RenderError when a template and the plan disagree, or a PTX wrapper is unknown.
    """
    try:
        parts = {"p": plan, **blocks(plan)}
        template = _environment().get_template(plan.template)
        body = template.render(**parts, header="", ptx="")
        wrappers, used = _ptx_closure(body, plan)
        files = _files_behind(plan.template) | used
        header = header_comment(plan, _digest_of(files))
        source = template.render(**parts, header=header, ptx="\n\n".join(wrappers))
        c_header = (
            _environment().get_template("host/header.h.j2").render(p=plan, version=__version__)
        )
    except TemplateError as error:
        raise RenderError(f"{plan.template}: {error}") from error
    return Rendered(plan.name, _tidy(source), _tidy(c_header))


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(data_folder("templates"), encoding="utf-8"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


def fill(template: str, **values: Any) -> str:
    """The text of a template that is no kernel: a binding, a build file.

    Long lines are broken in C and C++ alone, since wrap knows no other language.

    Raises RenderError when the template and the values disagree.
    """
    try:
        text = _environment().get_template(template).render(**values).strip("\n") + "\n"
    except TemplateError as error:
        raise RenderError(f"{template}: {error}") from error
    return wrap(text) if template.endswith(_C_TEMPLATES) else text


def _tidy(text: str) -> str:
    """No trailing blanks, no long lines, no two empty lines in a row, one newline at the end."""
    text = re.sub(r"[ \t]+\n", "\n", text)
    text = re.sub(r"\n{3,}", "\n\n", text)
    # Blocks that a template leaves empty must not leave a gap at the edge of a scope.
    text = re.sub(r"\n\n+(\s*\}(?!  // namespace))", r"\n\1", text)
    text = re.sub(r"(?<!\n)\n(\}  // namespace)", r"\n\n\1", text)
    return wrap(text.strip("\n")) + "\n"


def commented(rows: Iterable[tuple[str, str]], indent: str = "") -> str:
    """Code with notes in one column; code too long for that carries its note in the line above."""
    rows = list(rows)
    if not rows:
        return ""
    longest = LINE_LENGTH - len(indent) - len("  // ")
    beside = [len(code) for code, note in rows if len(code) + len(note) <= longest]
    width = min(max(beside, default=0), longest - max(len(note) for _, note in rows)) + 2
    lines = []
    for code, note in rows:
        if len(code) + 2 <= width:
            lines.append(f"{indent}{code:<{width}}// {note}")
        else:
            lines += [f"{indent}// {note}", f"{indent}{code}"]
    return "\n".join(lines)


def blocks(plan: KernelPlan) -> dict[str, str]:
    """The parts of a kernel whose columns line up: constants and the members of its structs."""
    constants = [(f"constexpr int {c.name} = {c.value};", c.note) for c in plan.constants]
    layouts = [
        (f"constexpr uint64_t {x.name} = {x.descriptor.bits};", x.descriptor.note)
        for x in plan.layouts
    ]
    problem = [(f"{f.type} {f.name};", f.note) for f in plan.problem_fields]
    storage = [
        (f"{f.type} {f.name}{''.join(f'[{dim}]' for dim in f.dims)};", f.note) for f in plan.storage
    ]
    return {
        "constants": commented(constants),
        "layouts": commented(layouts),
        "problem": commented(problem, "    "),
        "storage": commented(storage, "    "),
    }


@cache
def _wrapper_library() -> dict[str, tuple[str, Any]]:
    """Every PTX wrapper: function name to the file and macro that print it."""
    library: dict[str, tuple[str, Any]] = {}
    for file in sorted(n for n in _environment().list_templates() if n.startswith("ptx/")):
        module = _environment().get_template(file).module
        for name, macro in vars(module).items():
            if not name.startswith("_") and callable(macro):
                library[name] = (file, macro)
    return library


def _ptx_closure(body: str, plan: KernelPlan) -> tuple[list[str], set[str]]:
    """The wrappers that `body` calls and what those call, callees first, and their files."""
    library = _wrapper_library()
    calls = re.compile(r"\b(" + "|".join(sorted(library, key=len, reverse=True)) + r")\s*[<(]")
    texts: dict[str, str] = {}

    def visit(name: str) -> None:
        if name in texts:
            return
        if name not in library:
            raise RenderError(f"{plan.template}: no PTX wrapper is called ptx::{name}")
        text = library[name][1](plan).strip("\n")
        for callee in calls.findall(text):
            if callee != name:
                visit(callee)
        texts[name] = text

    for name in _USE.findall(body):
        visit(name)
    return list(texts.values()), {library[name][0] for name in texts}


@cache
def _files_behind(template: str) -> frozenset[str]:
    """A template and everything it imports."""
    environment = _environment()
    loader = environment.loader
    assert loader is not None
    source, _, _ = loader.get_source(environment, template)
    found = {template}
    for name in meta.find_referenced_templates(environment.parse(source)):
        if name is not None:
            found |= _files_behind(name)
    return frozenset(found)


def _digest_of(files: set[str] | frozenset[str]) -> str:
    total = hashlib.sha256()
    for file in sorted(files):
        text = (data_folder("templates") / file).read_bytes()
        total.update(file.encode() + b"\0" + hashlib.sha256(text).digest())
    return total.hexdigest()[:12]


def header_comment(plan: KernelPlan, template_digest: str) -> str:
    """The comment that opens a generated file: identity, problem, budget, evidence."""
    cuda = ".".join(map(str, plan.minimum_cuda))
    b = plan.budget
    wide = max(8, *(len(x.name) for x in b.barriers))
    lines = [
        f"{plan.name}.cu - generated by kgen {__version__}, do not edit.",
        f"spec {plan.spec_label} {plan.spec_digest}",
        f"template {plan.template} {template_digest}",
        f"target {plan.target} ({plan.devices}), CUDA {cuda} or newer, C++17:",
        f"  nvcc -std=c++17 -gencode arch=compute_{plan.target[3:]},code={plan.target}",
        "",
        plan.problem,
        *plan.interface,
        "",
        *plan.structure,
        *(line for x in b.ledgers for line in (x.title, *(f"  {row}" for row in x.rows()))),
        f"registers: {b.launch_cap} per thread at launch of {b.threads} threads",
        *(
            f"  {r.name}: {r.accumulators} accumulators"
            f"{f', {r.block_sums} for the sums of a block' if r.block_sums else ''} and about "
            f"{r.overhead} more, of {r.register_cap}"
            for r in b.roles
            if r.accumulators or r.register_cap != b.launch_cap
        ),
        "mbarriers (arrivals complete a phase, with the bytes where given)",
        *(
            f"  {x.name:<{wide}} {x.count} x {x.arrivals} arrival{'s' if x.arrivals > 1 else ''}"
            f"{f' + {x.tx_bytes} bytes' if x.tx_bytes else ''}: {x.arriver}; {x.waiter} wait"
            f"{'' if x.waiter.endswith('s') else 's'}"
            for x in b.barriers
        ),
    ]
    text = [f"// {line}".rstrip() for line in lines]
    text += ["//", EVIDENCE_BEGIN, NO_EVIDENCE, EVIDENCE_END]
    return "\n".join(text)


def without_evidence(source: str) -> str:
    """The text with the content of its evidence block replaced by "none recorded".

    Raises RenderError when the block is missing, or holds anything that a compiler would see.
    """
    return with_evidence(source, [NO_EVIDENCE])


def with_evidence(source: str, rows: Iterable[str]) -> str:
    """The text with the content of its evidence block replaced by these comment lines.

    Raises RenderError as without_evidence does.
    """
    begin, end = source.find(EVIDENCE_BEGIN), source.find(EVIDENCE_END)
    if begin < 0 or end < begin:
        raise RenderError("the evidence block is missing from the header")
    lines = source[begin:end].splitlines()
    if not all(line.startswith("//") and not line.rstrip().endswith("\\") for line in lines):
        raise RenderError("the evidence block holds more than comments")
    return "\n".join([source[:begin] + EVIDENCE_BEGIN, *rows, source[end:]])


def source_digest(source: str) -> str:
    """12 hex digits over the code of a generated source, its header comment left out.

    The header names kgen's version, the templates and the evidence; none of them reaches the
    compiler, so none of them makes a measurement of this code stale.
    """
    lines = source.split("\n")
    first = next((i for i, line in enumerate(lines) if not line.startswith("//")), len(lines))
    return hashlib.sha256("\n".join(lines[first:]).encode()).hexdigest()[:12]
