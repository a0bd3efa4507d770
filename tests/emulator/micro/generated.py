"""PTX text of the generated micro-test kernels: one kernel per form, nothing but its instruction.

Registers are declared as untyped bits, which every instruction type accepts.
"""

from __future__ import annotations

from .forms import ATOM, CVT, FLOAT, INTEGER, MATRIX, MMA, RED, WARP, WGMMA, Mma, Wgmma

HEADER = ".version 8.6\n.target sm_90a\n.address_size 64\n"
LANES = 64
IMAGE_BYTES = 49152
"""Shared memory that every wgmma kernel fills from its image."""


def _entry(name: str, params: str, threads: int, body: list[str]) -> str:
    """params: name:type pairs; their values are loaded into registers of the same name."""
    pairs = [p.split(":") for p in params.split()]
    declared = ", ".join(f".param .{t} {name}_{p}" for p, t in pairs)
    loads = [f"ld.param.{t} %{p}, [{name}_{p}];" for p, t in pairs]
    registers = [f".reg .b{t[1:]} %{p};" for p, t in pairs]
    lines = registers + loads + body + ["ret;"]
    return (
        f".visible .entry {name}({declared})\n.maxntid {threads}\n{{\n" + "\n".join(lines) + "\n}\n"
    )


def _list(prefix: str, count: int) -> str:
    return "{" + ", ".join(f"%{prefix}{i}" for i in range(count)) + "}"


def _transfer(op: str, prefix: str, count: int, base: str, threads: int) -> list[str]:
    """Register i of thread t <-> 32-bit word i * threads + t."""
    step = 4 * threads
    if op == "ld":
        return [f"ld.global.b32 %{prefix}{i}, [%{base} + {i * step}];" for i in range(count)]
    return [f"st.global.b32 [%{base} + {i * step}], %{prefix}{i};" for i in range(count)]


# ---------------------------------------------------------------- wgmma


def wgmma_kernel(form: Wgmma) -> str:
    """image -> shared memory; registers c -> D; `steps` instructions; D -> out.

    a_desc and b_desc advance by a_step and b_step after each instruction. They hold start addresses
    (in units of 16) relative to the image.
    """
    count, shape = form.d_registers, f"m64n{form.n}k{form.k}"
    types = f"{form.d}.{form.a}.{form.b}" + (".satfinite" if form.satfinite else "")
    immediates = ""
    if form.a in ("f16", "bf16"):
        assert form.trans is not None
        trans = form.trans[1:] if form.a_registers else form.trans
        immediates = ", ".join(["", "-1" if form.negate_a else "1", "1", *map(str, trans)])
    elif form.d != "s32":
        immediates = ", 1, 1"
    a = _list("a", 4) if form.a_registers else "%a_desc"
    body = [
        ".reg .b32 %t, %i, %base, %to;",
        ".reg .b64 %at, %wide;",
        ".reg .pred %p, %scale;",
        f".reg .b32 %d<{count}>, %a<4>;",
        "mov.u32 %t, %tid.x;",
        "mov.u32 %base, tile;",
        # image -> shared
        "shl.b32 %i, %t, 4;",
        "COPY:",
        "cvt.u64.u32 %wide, %i;",
        "add.u64 %at, %image, %wide;",
        "ld.global.v4.b32 {%a0, %a1, %a2, %a3}, [%at];",
        "add.u32 %to, %base, %i;",
        "st.shared.v4.b32 [%to], {%a0, %a1, %a2, %a3};",
        "add.u32 %i, %i, 2048;",
        f"setp.lt.u32 %p, %i, {IMAGE_BYTES};",
        "@%p bra COPY;",
        "fence.proxy.async.shared::cta;",
        "bar.sync 0;",
        "mul.wide.u32 %wide, %t, 4;",
        "add.u64 %at, %c, %wide;",
        *_transfer("ld", "d", count, "at", 128),
        "add.u64 %out, %out, %wide;",
        "shr.u32 %base, %base, 4;",
        "cvt.u64.u32 %at, %base;",
        "add.u64 %a_desc, %a_desc, %at;",
        "add.u64 %b_desc, %b_desc, %at;",
        "setp.ne.b32 %scale, %scale_d, 0;",
        "add.u64 %at, %a_regs, %wide;" if form.a_registers else "",
        "STEP:",
        *(_transfer("ld", "a", 4, "at", 128) if form.a_registers else []),
        "wgmma.fence.sync.aligned;",
        f"wgmma.mma_async.sync.aligned.{shape}.{types} {_list('d', count)}, {a}, %b_desc, "
        f"%scale{immediates};",
        "wgmma.commit_group.sync.aligned;",
        "wgmma.wait_group.sync.aligned 0;",
        "setp.eq.b32 %scale, %scale_d, %scale_d;",
        "add.u64 %a_desc, %a_desc, %a_step;",
        "add.u64 %b_desc, %b_desc, %b_step;",
        "add.u64 %at, %at, 2048;" if form.a_registers else "",
        "sub.u32 %steps, %steps, 1;",
        "setp.ne.b32 %p, %steps, 0;",
        "@%p bra STEP;",
        *_transfer("st", "d", count, "out", 128),
    ]
    params = (
        "image:u64 c:u64 out:u64 a_regs:u64 a_desc:u64 b_desc:u64 a_step:u64 b_step:u64 "
        "steps:u32 scale_d:u32"
    )
    return _entry(form.name, params, 128, [line for line in body if line])


# ---------------------------------------------------------------- one warp


def mma_kernel(form: Mma) -> str:
    """in: A, B and C registers of one warp behind each other; out: D."""
    na, nb, nd = form.registers
    tail = ".satfinite" if form.satfinite else ""
    body = [
        ".reg .b32 %t;",
        ".reg .b64 %wide;",
        f".reg .b32 %a<{na}>, %b<{nb}>, %d<{nd}>;",
        "mov.u32 %t, %tid.x;",
        "mul.wide.u32 %wide, %t, 4;",
        "add.u64 %in, %in, %wide;",
        "add.u64 %out, %out, %wide;",
        *_transfer("ld", "a", na, "in", 32),
        f"add.u64 %in, %in, {128 * na};",
        *_transfer("ld", "b", nb, "in", 32),
        f"add.u64 %in, %in, {128 * nb};",
        *_transfer("ld", "d", nd, "in", 32),
        f"mma.sync.aligned.m16n8k{form.k}.row.col{tail}.{form.d}.{form.a}.{form.b}.{form.d} "
        f"{_list('d', nd)}, {_list('a', na)}, {_list('b', nb)}, {_list('d', nd)};",
        *_transfer("st", "d", nd, "out", 32),
    ]
    return _entry(form.name, "in:u64 out:u64", 32, body)


def matrix_kernel(kind: str, matrices: int, trans: bool) -> str:
    """ldmatrix: shared <- 1 KiB image, registers -> out. stmatrix: registers -> shared -> out.

    Lane l uses the row at byte rows[l] of the image.
    """
    name = f"{kind}_x{matrices}" + ("_trans" if trans else "")
    suffix = ".trans" if trans else ""
    regs = _list("r", matrices)
    instruction = f"{kind}.sync.aligned.m8n8.x{matrices}{suffix}.shared.b16 " + (
        f"{regs}, [%row];" if kind == "ldmatrix" else f"[%row], {regs};"
    )
    body = [
        ".reg .b32 %t, %row, %base, %v;",
        ".reg .b64 %wide;",
        f".reg .b32 %r<{matrices}>;",
        "mov.u32 %t, %tid.x;",
        "mov.u32 %base, tile;",
        "mul.wide.u32 %wide, %t, 4;",
        "add.u64 %image, %image, %wide;",
        "add.u64 %rows, %rows, %wide;",
        "add.u64 %out, %out, %wide;",
        "shl.b32 %t, %t, 2;",
        "add.u32 %t, %t, %base;",
    ]
    for i in range(8):
        body += [f"ld.global.b32 %v, [%image + {128 * i}];", f"st.shared.b32 [%t + {128 * i}], %v;"]
    body += ["ld.global.b32 %row, [%rows];", "add.u32 %row, %row, %base;", "bar.sync 0;"]
    if kind == "ldmatrix":
        body += [instruction, *_transfer("st", "r", matrices, "out", 32)]
    else:
        # the values follow the row offsets
        body += [f"ld.global.b32 %r{i}, [%rows + {128 * (i + 1)}];" for i in range(matrices)]
        body += [instruction, "bar.sync 0;"]
        for i in range(8):
            body += [
                f"ld.shared.b32 %v, [%t + {128 * i}];",
                f"st.global.b32 [%out + {128 * i}], %v;",
            ]
    return _entry(name, "image:u64 rows:u64 out:u64", 32, body)


# ---------------------------------------------------------------- one instruction per lane

_DECLARE = [
    ".reg .b32 %t, %a, %b, %c, %d, %e;",
    ".reg .b16 %ah, %bh, %dh, %drop;",
    ".reg .b64 %wide, %al, %bl, %dl, %at;",
    ".reg .pred %p;",
    "mov.u32 %t, %tid.x;",
    "mul.wide.u32 %wide, %t, 4;",
    "add.u64 %in, %in, %wide;",
    "ld.global.b32 %a, [%in];",
    f"ld.global.b32 %b, [%in + {4 * LANES}];",
    f"ld.global.b32 %c, [%in + {8 * LANES}];",
    "mov.b32 {%ah, %drop}, %a;",
    "mov.b32 {%bh, %drop}, %b;",
    "mov.b64 %al, {%a, %b};",
    "mov.b64 %bl, {%c, %a};",
    "mov.b32 %d, 0;",
    "mov.b16 %dh, 0;",
    "mov.b64 %dl, 0;",
    "setp.ne.b32 %p, %d, 0;",
]
_RESULTS = [
    # low word: 32-bit result, 16-bit result or the predicate; high word: the rest of a 64-bit one
    "cvt.u32.u16 %e, %dh;",
    "or.b32 %d, %d, %e;",
    "selp.b32 %e, 0x80000000, 0, %p;",
    "mov.b64 {%a, %b}, %dl;",
    "or.b32 %d, %d, %a;",
    "xor.b32 %d, %d, %e;",
    "st.global.b32 [%out], %d;",
    f"st.global.b32 [%out + {4 * LANES}], %b;",
]


def lane_kernel(name: str, text: str) -> str:
    """in: three words per lane; out: two words per lane."""
    body = [*_DECLARE, "add.u64 %out, %out, %wide;", *_split(text), *_RESULTS]
    return _entry(name, "in:u64 out:u64", LANES, body)


def memory_kernel(name: str, text: str, space: str) -> str:
    """As lane_kernel, on cells: atom has one 8-byte cell per lane, red one for all lanes.

    Global cells are the array `cells`; shared ones are loaded from it and stored back.
    """
    common = text.startswith("red") or " red." in text
    cells = 1 if common else LANES
    body = [*_DECLARE, "add.u64 %out, %out, %wide;", "mul.wide.u32 %wide, %t, 8;"]
    if space == "global":
        body += ["mov.u64 %at, %cells;" if common else "add.u64 %at, %cells, %wide;"]
    else:
        body += [
            ".reg .b64 %g, %v;",
            "add.u64 %g, %cells, %wide;",
            f"setp.ge.u32 %p, %t, {cells};",
            "mov.u64 %at, tile;",
            "add.u64 %wide, %wide, %at;",
            "" if common else "mov.u64 %at, %wide;",
            "@!%p ld.global.b64 %v, [%g];",
            "@!%p st.shared.b64 [%wide], %v;",
            "bar.sync 0;",
            "setp.ne.b32 %p, %d, 0;",
        ]
    body += _split(text.format(space=space))
    if space == "shared":
        body += [
            "bar.sync 0;",
            f"setp.ge.u32 %p, %t, {cells};",
            "@!%p ld.shared.b64 %v, [%wide];",
            "@!%p st.global.b64 [%g], %v;",
            "setp.ne.b32 %p, %t, %t;",
        ]
    body += _RESULTS
    kernel = f"{name}_{space}".replace(".", "_")
    return _entry(kernel, "in:u64 out:u64 cells:u64", LANES, [line for line in body if line])


def _split(text: str) -> list[str]:
    return [part.strip() + ";" for part in text.split(";") if part.strip()]


def modules() -> dict[str, str]:
    """Module name -> PTX text."""
    shared = HEADER + ".extern .shared .align 1024 .b8 tile[];\n"

    def lanes(table: dict[str, str], prefix: str = "") -> str:
        return HEADER + "".join(
            lane_kernel((prefix + name).replace(".", "_"), text) for name, text in table.items()
        )

    return {
        "wgmma": shared + "".join(map(wgmma_kernel, WGMMA)),
        "mma": HEADER + "".join(map(mma_kernel, MMA)),
        "matrix": shared + "".join(matrix_kernel(*form) for form in MATRIX),
        "cvt": lanes(CVT, "cvt_"),
        "float": lanes(FLOAT),
        "integer": lanes(INTEGER),
        "warp": lanes(WARP),
        "atomics": shared + "".join(
            memory_kernel(name, text, space)
            for space in ("global", "shared") for name, text in (ATOM | RED).items()
        ),
    }  # fmt: skip
