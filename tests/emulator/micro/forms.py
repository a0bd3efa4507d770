"""The instruction forms that generated.py turns into one PTX kernel each. Pure data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Wgmma:
    """wgmma.mma_async.m64nNkK.D.A.B; trans are the immediates, None where the form has none."""

    n: int
    d: str
    a: str
    b: str
    trans: tuple[int, int] | None = None
    a_registers: bool = False
    negate_a: bool = False
    satfinite: bool = False

    @property
    def k(self) -> int:
        return {"f16": 16, "bf16": 16, "tf32": 8}.get(self.a, 32)

    @property
    def d_registers(self) -> int:
        return self.n // 4 if self.d == "f16" else self.n // 2

    @property
    def name(self) -> str:
        parts = ["wgmma", self.d, self.a, self.b, f"n{self.n}"]
        if self.trans:
            parts.append(f"t{self.trans[0]}{self.trans[1]}")
        parts += [
            tag
            for tag, on in (
                ("areg", self.a_registers),
                ("neg", self.negate_a),
                ("sat", self.satfinite),
            )
            if on
        ]
        return "_".join(parts)


WGMMA = (
    *(Wgmma(n, "f32", "f16", "f16", (0, 0)) for n in (8, 64, 128, 256)),
    *(Wgmma(128, "f32", "f16", "f16", t) for t in ((0, 1), (1, 0), (1, 1))),
    Wgmma(64, "f32", "f16", "f16", (0, 0), negate_a=True),
    *(Wgmma(64, "f32", "f16", "f16", (0, t), a_registers=True) for t in (0, 1)),
    *(Wgmma(n, "f32", "bf16", "bf16", (0, 0)) for n in (8, 64)),
    Wgmma(64, "f32", "bf16", "bf16", (1, 1)),
    *(Wgmma(n, "f16", "f16", "f16", (0, 0)) for n in (8, 64, 256)),
    Wgmma(64, "f16", "f16", "f16", (0, 0), a_registers=True),
    *(Wgmma(n, "f32", "e4m3", "e4m3") for n in (8, 64)),
    Wgmma(64, "f32", "e5m2", "e4m3"),
    Wgmma(64, "f32", "e4m3", "e4m3", a_registers=True),
    *(Wgmma(n, "f16", "e4m3", "e5m2") for n in (8, 64)),
    *(Wgmma(n, "f32", "tf32", "tf32") for n in (8, 64)),
    Wgmma(64, "f32", "tf32", "tf32", a_registers=True),
    *(Wgmma(n, "s32", "s8", "s8") for n in (8, 64)),
    Wgmma(48, "s32", "u8", "s8"),
    Wgmma(64, "s32", "s8", "s8", a_registers=True),
    Wgmma(8, "s32", "s8", "s8", satfinite=True),
)


@dataclass(frozen=True)
class Mma:
    """mma.sync.aligned.m16n8kK.row.col.D.A.B.D."""

    k: int
    d: str
    a: str
    b: str
    satfinite: bool = False

    @property
    def element_bytes(self) -> int:
        return {"f16": 2, "bf16": 2, "tf32": 4}.get(self.a, 1)

    @property
    def registers(self) -> tuple[int, int, int]:
        """Of A, B and D."""
        steps = self.k * self.element_bytes // 16
        return 2 * steps, steps, 2 if self.d == "f16" else 4

    @property
    def name(self) -> str:
        return f"mma_{self.d}_{self.a}_{self.b}_k{self.k}" + ("_sat" if self.satfinite else "")


MMA = (
    Mma(8, "f32", "f16", "f16"), Mma(16, "f32", "f16", "f16"), Mma(16, "f16", "f16", "f16"),
    Mma(8, "f32", "bf16", "bf16"), Mma(16, "f32", "bf16", "bf16"),
    Mma(4, "f32", "tf32", "tf32"), Mma(8, "f32", "tf32", "tf32"),
    Mma(32, "f32", "e4m3", "e5m2"), Mma(16, "s32", "s8", "s8"), Mma(32, "s32", "u8", "s8"),
    Mma(32, "s32", "s8", "s8", satfinite=True),
)  # fmt: skip

# Kernels of one instruction over 64 lanes: name -> instruction text. Operands: %a %b %c are 32-bit
# inputs, %ah and %bh their low halves (16 bits), %al = b:a and %bl = a:c 64-bit ones; results go to
# %d (32 bits), %dh (16), %dl (64) or the predicate %p. Every result register starts at zero.
CVT = {
    **{f"f16_f32_{r}": f"cvt.{r}.f16.f32 %dh, %a;" for r in ("rn", "rz")},
    "f16_f32_relu": "cvt.rn.relu.f16.f32 %dh, %a;",
    **{f"bf16_f32_{r}": f"cvt.{r}.bf16.f32 %dh, %a;" for r in ("rn", "rz")},
    "bf16_f32_relu": "cvt.rn.relu.bf16.f32 %dh, %a;",
    **{f"tf32_f32_{r}": f"cvt.{r}.tf32.f32 %d, %a;" for r in ("rn", "rz", "rna")},
    "tf32_f32_relu": "cvt.rn.relu.tf32.f32 %d, %a;",
    "f16x2_rn": "cvt.rn.f16x2.f32 %d, %a, %b;",
    "f16x2_rz": "cvt.rz.f16x2.f32 %d, %a, %b;",
    "bf16x2_rn": "cvt.rn.bf16x2.f32 %d, %a, %b;",
    "bf16x2_relu": "cvt.rn.relu.bf16x2.f32 %d, %a, %b;",
    **{f"{t}x2": f"cvt.rn.satfinite.{t}x2.f32 %dh, %a, %b;" for t in ("e4m3", "e5m2")},
    "e4m3x2_relu": "cvt.rn.satfinite.relu.e4m3x2.f32 %dh, %a, %b;",
    **{f"{t}x2_f16x2": f"cvt.rn.satfinite.{t}x2.f16x2 %dh, %a;" for t in ("e4m3", "e5m2")},
    **{f"f16x2_{t}x2": f"cvt.rn.f16x2.{t}x2 %d, %ah;" for t in ("e4m3", "e5m2")},
    "f32_f16": "cvt.f32.f16 %d, %ah;",
    "f32_bf16": "cvt.f32.bf16 %d, %ah;",
    **{f"s32_f32_{r}": f"cvt.{r}.s32.f32 %d, %a;" for r in ("rni", "rzi", "rmi", "rpi")},
    "u32_f32": "cvt.rzi.u32.f32 %d, %a;",
    "s8_f32_sat": "cvt.rni.sat.s8.f32 %d, %a;",
    "u8_f32_sat": "cvt.rni.sat.u8.f32 %d, %a;",
    "s16_f32": "cvt.rzi.s16.f32 %dh, %a;",
    "s64_f32": "cvt.rzi.s64.f32 %dl, %a;",
    "u64_f32": "cvt.rzi.u64.f32 %dl, %a;",
    "s32_f16": "cvt.rzi.s32.f16 %d, %ah;",
    "f16_s32": "cvt.rn.f16.s32 %dh, %a;",
    "f32_s32": "cvt.rn.f32.s32 %d, %a;",
    "f32_s32_rz": "cvt.rz.f32.s32 %d, %a;",
    "f32_u32": "cvt.rn.f32.u32 %d, %a;",
    "f32_s64": "cvt.rn.f32.s64 %d, %al;",
    "f32_u64": "cvt.rn.f32.u64 %d, %al;",
    **{f"f32_f32_{r}": f"cvt.{r}.f32.f32 %d, %a;" for r in ("rni", "rzi", "rmi", "rpi")},
    "f32_f32_sat": "cvt.sat.f32.f32 %d, %a;",
    "f32_f32_ftz": "cvt.rzi.ftz.f32.f32 %d, %a;",
    "s32_s8": "cvt.s32.s8 %d, %a;",
    "u32_u16": "cvt.u32.u16 %d, %ah;",
    "s16_s32_sat": "cvt.sat.s16.s32 %dh, %a;",
    "u8_s32_sat": "cvt.sat.u8.s32 %d, %a;",
    "s64_s32": "cvt.s64.s32 %dl, %a;",
    "u64_u32": "cvt.u64.u32 %dl, %a;",
    "u32_u64": "cvt.u32.u64 %d, %al;",
    "f64_f32": "cvt.f64.f32 %dl, %a;",
    "f32_f64": "cvt.rn.f32.f64 %d, %al;",
}

FLOAT = {
    **{
        f"{op}_{r}_f32": f"{op}.{r}.f32 %d, %a, %b;"
        for op in ("add", "sub", "mul")
        for r in ("rn", "rz", "rm", "rp")
    },
    **{f"fma_{r}_f32": f"fma.{r}.f32 %d, %a, %b, %c;" for r in ("rn", "rz")},
    "add_ftz_f32": "add.ftz.f32 %d, %a, %b;",
    "mul_sat_f32": "mul.sat.f32 %d, %a, %b;",
    "min_f32": "min.f32 %d, %a, %b;",
    "max_f32": "max.f32 %d, %a, %b;",
    "min_nan_f32": "min.NaN.f32 %d, %a, %b;",
    "neg_f32": "neg.f32 %d, %a;",
    "abs_f32": "abs.f32 %d, %a;",
    "div_rn_f32": "div.rn.f32 %d, %a, %b;",
    "rcp_rn_f32": "rcp.rn.f32 %d, %a;",
    "sqrt_rn_f32": "sqrt.rn.f32 %d, %a;",
    "copysign_f32": "copysign.f32 %d, %a, %b;",
    "selp_f32": "setp.lt.f32 %p, %a, %b; selp.f32 %d, %a, %c, %p;",
    **{
        f"setp_{c}_f32": f"setp.{c}.f32 %p, %a, %b;"
        for c in ("eq", "ne", "lt", "ge", "equ", "neu", "ltu", "geu", "num", "nan")
    },
    "add_f64": "add.rn.f64 %dl, %al, %bl;",
    "fma_f64": "fma.rn.f64 %dl, %al, %bl, %al;",
    **{
        f"{op}_{t}": f"{op}.{t} %d, %a, %b;"
        for op in ("add", "sub", "mul", "min", "max")
        for t in ("f16x2", "bf16x2")
    },
    **{f"fma_{t}": f"fma.rn.{t} %d, %a, %b, %c;" for t in ("f16x2", "bf16x2")},
    "fma_relu_f16x2": "fma.rn.relu.f16x2 %d, %a, %b, %c;",
    **{f"{op}_{t}": f"{op}.{t} %d, %a;" for op in ("neg", "abs") for t in ("f16x2", "bf16x2")},
    **{f"{op}_f16": f"{op}.f16 %dh, %ah, %bh;" for op in ("add", "mul", "max")},
    "fma_f16": "fma.rn.f16 %dh, %ah, %bh, %ah;",
    "setp_lt_f16": "setp.lt.f16 %p, %ah, %bh;",
}

INTEGER = {
    **{f"{op}_u32": f"{op}.u32 %d, %a, %b;" for op in ("add", "sub", "min", "max", "div", "rem")},
    **{f"{op}_s32": f"{op}.s32 %d, %a, %b;" for op in ("min", "max", "div", "rem")},
    "add_sat_s32": "add.sat.s32 %d, %a, %b;",
    "mul_lo": "mul.lo.s32 %d, %a, %b;",
    "mul_hi_s32": "mul.hi.s32 %d, %a, %b;",
    "mul_hi_u32": "mul.hi.u32 %d, %a, %b;",
    "mul_wide_s32": "mul.wide.s32 %dl, %a, %b;",
    "mul_wide_u32": "mul.wide.u32 %dl, %a, %b;",
    "mad_lo": "mad.lo.s32 %d, %a, %b, %c;",
    "mad_hi_u32": "mad.hi.u32 %d, %a, %b, %c;",
    "mad_wide_s32": "mad.wide.s32 %dl, %a, %b, %al;",
    "mul24_lo_u32": "mul24.lo.u32 %d, %a, %b;",
    "sad_s32": "sad.s32 %d, %a, %b, %c;",
    "abs_s32": "abs.s32 %d, %a;",
    "neg_s32": "neg.s32 %d, %a;",
    **{f"{op}_b32": f"{op}.b32 %d, %a, %b;" for op in ("and", "or", "xor")},
    "not_b32": "not.b32 %d, %a;",
    "cnot_b32": "cnot.b32 %d, %a;",
    **{f"lop3_{t:02x}": f"lop3.b32 %d, %a, %b, %c, {t};" for t in (0x6A, 0xF8, 0x96)},
    "shl_b32": "and.b32 %b, %b, 63; shl.b32 %d, %a, %b;",
    "shr_u32": "and.b32 %b, %b, 63; shr.u32 %d, %a, %b;",
    "shr_s32": "and.b32 %b, %b, 63; shr.s32 %d, %a, %b;",
    **{f"shf_{d}_{m}": f"and.b32 %c, %c, 63; shf.{d}.{m}.b32 %d, %a, %b, %c;"
       for d in "lr" for m in ("wrap", "clamp")},
    "prmt": "prmt.b32 %d, %a, %b, %c;",
    **{f"prmt_{m}": f"prmt.b32.{m} %d, %a, %b, %c;"
       for m in ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")},
    **{f"bfe_{t}": "and.b32 %b, %b, 47; and.b32 %c, %c, 47; " + f"bfe.{t} %d, %a, %b, %c;"
       for t in ("u32", "s32")},
    "bfi_b32": "mov.b32 %e, 9; and.b32 %c, %c, 47; bfi.b32 %d, %a, %b, %c, %e;",
    "popc": "popc.b32 %d, %a;",
    "clz": "clz.b32 %d, %a;",
    "brev": "brev.b32 %d, %a;",
    "bfind_u32": "bfind.u32 %d, %a;",
    "bfind_s32": "bfind.s32 %d, %a;",
    "bmsk_clamp": "and.b32 %b, %b, 47; and.b32 %c, %c, 47; bmsk.clamp.b32 %d, %b, %c;",
    "szext_wrap_s32": "szext.wrap.s32 %d, %a, %b;",
    **{f"dp4a_{t}": f"dp4a.{t} %d, %a, %b, %c;" for t in ("u32.u32", "s32.s32", "u32.s32")},
    "dp2a_lo": "dp2a.lo.s32.s32 %d, %a, %b, %c;",
    "carry": "add.cc.u32 %d, %a, %b; addc.u32 %d, %c, %d;",
    "set_lt": "set.lt.u32.s32 %d, %a, %b;",
    "slct": "slct.u32.s32 %d, %a, %b, %c;",
    "setp_and": "setp.ne.b32 %p, %c, 0; setp.lt.and.s32 %p, %a, %b, %p;",
    **{f"setp_{c}": f"setp.{c}.{t} %p, %a, %b;" for c, t in (
        ("lo", "u32"), ("hs", "u32"), ("lt", "s32"), ("ge", "s32"), ("eq", "b32"))},
    **{f"{op}_64": f"{op} %dl, %al, %bl;" for op in (
        "add.s64", "sub.s64", "mul.lo.s64", "mul.hi.u64", "min.s64", "max.u64", "div.s64",
        "rem.u64", "xor.b64")},
    "shl_b64": "and.b32 %c, %c, 127; shl.b64 %dl, %al, %c;",
    "shr_s64": "and.b32 %c, %c, 127; shr.s64 %dl, %al, %c;",
    "popc_b64": "popc.b64 %d, %al;",
    "add_s16": "add.s16 %dh, %ah, %bh;",
    "mul_wide_s16": "mul.wide.s16 %d, %ah, %bh;",
    "shr_s16": "and.b32 %b, %b, 31; shr.s16 %dh, %ah, %b;",
}  # fmt: skip

WARP = {
    **{f"shfl_{m}_{name}": f"shfl.sync.{m}.b32 %d|%p, %a, {arg}, {clamp}, -1;"
       for m, arg, clamps in (
           ("idx", "%b", ((31, "32"), (0x1C1F, "4"))),
           ("up", "3", ((0, "32"), (0x1800, "8"))),
           ("down", "5", ((31, "32"), (0x181F, "8"))),
           ("bfly", "6", ((31, "32"), (0x181F, "8"))))
       for clamp, name in clamps},
    **{f"vote_{m}": f"setp.lt.s32 %p, %a, %b; vote.sync.{m}.pred %p, %p, -1;"
       for m in ("all", "any", "uni")},
    "vote_all_true": "setp.eq.b32 %p, %a, %a; vote.sync.all.pred %p, %p, -1;",
    "vote_uni_false": "setp.ne.b32 %p, %a, %a; vote.sync.uni.pred %p, %p, -1;",
    "vote_ballot": "setp.lt.s32 %p, %a, %b; vote.sync.ballot.b32 %d, %p, -1;",
    **{f"redux_{op}": f"redux.sync.{op.replace('_', '.')} %d, %a, -1;" for op in (
        "add_s32", "add_u32", "min_s32", "min_u32", "max_s32", "max_u32", "and_b32", "or_b32",
        "xor_b32")},
    "match_any": "and.b32 %a, %a, 3; match.any.sync.b32 %d, %a, -1;",
    "match_all": "mov.b32 %a, 5; match.all.sync.b32 %d|%p, %a, -1;",
    "elect": "elect.sync %d|%p, -1;",
    "activemask": "activemask.b32 %d;",
}  # fmt: skip

# atom forms on one 8-byte cell per lane (old value returned) and red forms on one common cell.
ATOM = {
    **{f"atom_{op}_{t}": f"atom.{{space}}.{op}.{t} %d, [%at], %b;" for op, t in (
        ("add", "u32"), ("min", "s32"), ("max", "s32"), ("min", "u32"), ("max", "u32"),
        ("inc", "u32"), ("dec", "u32"), ("exch", "b32"), ("and", "b32"), ("or", "b32"),
        ("xor", "b32"), ("add", "f32"), ("add", "noftz.f16x2"), ("add", "noftz.bf16x2"))},
    "atom_cas_b32": "atom.{space}.cas.b32 %d, [%at], %a, %b;",
    **{f"atom_{op}_{t}": f"atom.{{space}}.{op}.{t} %dl, [%at], %bl;" for op, t in (
        ("add", "u64"), ("exch", "b64"), ("max", "s64"))},
}  # fmt: skip
RED = {
    **{f"red_{op}_{t}": f"red.{{space}}.{op}.{t} [%at], %b;" for op, t in (
        ("add", "u32"), ("min", "s32"), ("max", "u32"), ("and", "b32"), ("or", "b32"),
        ("xor", "b32"))},
    "red_inc_u32": "mov.b32 %c, 40; red.{space}.inc.u32 [%at], %c;",
    "red_add_f32": "and.b32 %b, %b, 255; cvt.rn.f32.u32 %b, %b; red.{space}.add.f32 [%at], %b;",
    "red_add_u64": "red.{space}.add.u64 [%at], %bl;",
}  # fmt: skip

MATRIX = tuple(
    (kind, matrices, trans)
    for kind in ("ldmatrix", "stmatrix") for matrices in (1, 2, 4) for trans in (False, True)
)  # fmt: skip
