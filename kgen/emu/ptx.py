"""PTX as objects: operands, instructions, kernels. Reading the text is parser.py; meaning is
everybody else's.

Names follow the PTX ISA. Registers are unique over a kernel: a register that an inline-asm block
declares in its own braces carries the number of its scope ("p@3").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Reg:
    """A virtual register."""

    name: str


@dataclass(frozen=True)
class Imm:
    """A constant: `value` is an integer as written, or the bits of a 0f / 0d float."""

    value: int
    is_float: bool = False


@dataclass(frozen=True)
class Special:
    """A special register, such as %tid.x."""

    name: str


@dataclass(frozen=True)
class Sym:
    """The address of a variable, a parameter, or a label, plus `offset` bytes."""

    name: str
    offset: int = 0


@dataclass(frozen=True)
class Mem:
    """[base + offset] or, for tensors, [base, {coordinates}]."""

    base: Operand
    offset: int = 0
    coords: tuple[Operand, ...] = ()


@dataclass(frozen=True)
class Vec:
    """{a, b, c}"""

    items: tuple[Operand, ...]


@dataclass(frozen=True)
class Pair:
    """d|p: a value and a predicate."""

    first: Operand
    second: Operand


@dataclass(frozen=True)
class Not:
    """!p"""

    operand: Operand


Operand = Reg | Imm | Special | Sym | Mem | Vec | Pair | Not

SINK = Sym("_")  # the operand `_`: a result that nobody wants


@dataclass(frozen=True)
class Location:
    """A line of the CUDA source; `inlined_at` is the line of the call that brought it into its
    function, `calls` those of the PTX calls that led to the function, innermost first.
    """

    file: str = ""
    line: int = 0
    inlined_at: int = 0
    calls: tuple[int, ...] = ()

    def __str__(self) -> str:
        if not self.line:
            return ""
        base = self.file.rsplit("/", 1)[-1]
        place = f"{base}:{self.line}"
        lines = [line for line in (self.inlined_at, *self.calls) if line]
        return f"{place} (called at {', '.join(map(str, lines))})" if lines else place


@dataclass
class Instruction:
    """One instruction: guard, opcode with its modifiers, operands, and where it stands."""

    opcode: str  # as written, e.g. mbarrier.try_wait.parity.shared::cta.b64
    operands: tuple[Operand, ...]
    guard: Reg | None = None
    guard_negated: bool = False
    line: int = 0  # of the PTX text
    location: Location = Location()
    target: int = -1  # of a branch: the index of the instruction it goes to

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.opcode.split("."))

    @property
    def root(self) -> str:
        return self.opcode.split(".", 1)[0]

    @property
    def type(self) -> str:
        """The last modifier, which in PTX is the operand type."""
        return self.opcode.rsplit(".", 1)[-1]

    def has(self, modifier: str) -> bool:
        return modifier in self.parts[1:]


@dataclass(frozen=True)
class Variable:
    """A declared variable or parameter; `bytes` is 0 for dynamic shared memory."""

    name: str
    bytes: int
    align: int
    element_bytes: int


@dataclass
class Kernel:
    """One .entry, or one .func.

    results  return parameters of a .func
    copies   instructions that came from one instruction of a .func, called several times
    """

    name: str
    params: list[Variable] = field(default_factory=list)
    results: list[Variable] = field(default_factory=list)
    copies: list[tuple[int, ...]] = field(default_factory=list)
    registers: dict[str, str] = field(default_factory=dict)  # unique name -> type without its dot
    shared: list[Variable] = field(default_factory=list)
    code: list[Instruction] = field(default_factory=list)
    reqntid: tuple[int, ...] = ()
    maxntid: tuple[int, ...] = ()
    cluster: tuple[int, ...] = ()
    maxnreg: int = 0

    def param_offsets(self) -> dict[str, int]:
        """Byte offset of each parameter in the parameter buffer (natural alignment)."""
        offsets: dict[str, int] = {}
        at = 0
        for param in self.params:
            at = -(-at // param.align) * param.align
            offsets[param.name] = at
            at += param.bytes
        return offsets

    def shared_layout(self, base: int = 0) -> tuple[dict[str, int], int]:
        """Offset of every shared variable, static ones first, and the number of static bytes."""
        offsets: dict[str, int] = {}
        at = base
        for variable in self.shared:
            if variable.bytes:
                at = -(-at // variable.align) * variable.align
                offsets[variable.name] = at
                at += variable.bytes
        static = at - base
        for variable in self.shared:
            if not variable.bytes:
                offsets[variable.name] = -(-at // variable.align) * variable.align
        return offsets, static


@dataclass
class Module:
    """One PTX file."""

    version: str
    target: str
    kernels: dict[str, Kernel] = field(default_factory=dict)
    functions: dict[str, Kernel] = field(default_factory=dict)
    files: dict[int, str] = field(default_factory=dict)  # number in .file and .loc -> path


def registers_of(operand: Operand) -> Iterator[str]:
    """Names of the registers inside an operand; special registers count under their own names."""
    match operand:
        case Reg(name) | Special(name):
            yield name
        case Mem(base, _, coords):
            yield from registers_of(base)
            for coord in coords:
                yield from registers_of(coord)
        case Vec(items):
            for item in items:
                yield from registers_of(item)
        case Pair(first, second):
            yield from registers_of(first)
            yield from registers_of(second)
        case Not(inner):
            yield from registers_of(inner)
