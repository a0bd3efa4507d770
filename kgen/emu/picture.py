"""A timeline as a picture: one SVG row per warp and engine, emulated time from left to right.

Knows the events of timeline.py and nothing else.
"""

from __future__ import annotations

from typing import Any
from xml.sax.saxutils import escape

from kgen.emu.timeline import ENGINES

Event = dict[str, Any]

_ROW, _GAP, _LABEL, _TOP = 18, 4, 250, 40  # pixels
_COLOURS = {
    "TMA load": "#4477aa",
    "TMA store": "#ee6677",
    "TMA reduce": "#aa3377",
    "bulk": "#66ccee",
    "wgmma": "#228833",
    "wait": "#dddddd",
}


def svg(events: list[Event], width: int = 1200, ctas: int = 2) -> str:
    """The first `ctas` CTAs of a run; hovering over a bar shows its name, place and time."""
    spans = [e for e in events if e["ph"] == "X" and e["pid"] < ctas]
    names = {
        (e["pid"], e["tid"]): e["args"]["name"]
        for e in events
        if e["ph"] == "M" and e["name"] == "thread_name" and e["pid"] < ctas
    }
    rows = sorted(names)
    end = max((e["ts"] + e["dur"] for e in spans), default=1)
    scale = (width - _LABEL) / end
    height = _TOP + len(rows) * (_ROW + _GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        *_legend(),
        f'<text x="{width}" y="14" text-anchor="end">{end} warp-instructions</text>',
    ]
    for number, row in enumerate(rows):
        y = _TOP + number * (_ROW + _GAP)
        label = escape(f"CTA {row[0]} {names[row]}")
        parts.append(f'<text x="0" y="{y + 13}">{label}</text>')
        parts.append(
            f'<line x1="{_LABEL}" y1="{y + _ROW}" x2="{width}" y2="{y + _ROW}" stroke="#eeeeee"/>'
        )
        mine = [e for e in spans if (e["pid"], e["tid"]) == row]
        parts += [_bar(e, y, scale, e["tid"] >= ENGINES) for e in mine]
    return "\n".join([*parts, "</svg>"])


def _colour(name: str) -> str:
    return next((c for prefix, c in _COLOURS.items() if name.startswith(prefix)), "#bbbbbb")


def _bar(event: Event, y: int, scale: float, outlined: bool) -> str:
    x = _LABEL + event["ts"] * scale
    stroke = ' stroke="white" stroke-width="0.5"' if outlined else ""
    at = escape(f"{event['name']} ({event['args']['at']}) {event['ts']} + {event['dur']}")
    return (
        f'<rect x="{x:.1f}" y="{y}" width="{max(event["dur"] * scale, 0.8):.1f}" height="{_ROW}" '
        f'fill="{_colour(event["name"])}"{stroke}><title>{at}</title></rect>'
    )


def _legend() -> list[str]:
    parts = []
    for number, (name, colour) in enumerate(_COLOURS.items()):
        x = _LABEL + 90 * number
        parts.append(f'<rect x="{x}" y="4" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{x + 16}" y="14">{name}</text>')
    return parts
