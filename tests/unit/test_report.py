"""The report: what it shows, and that a browser shows it, on a phone and on a desk."""

from __future__ import annotations

import math
import os
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser, executable
from sweep_samples import PROBLEMS, fill

from kgen.errors import KgenError
from kgen.report import page
from kgen.report.data import Report, dispatch_means, intervals, load, losses, roof
from kgen.report.heat import axis_pairs, heat_map
from kgen.report.ladders import ladder
from kgen.report.pictures import ladder_chart, loss_chart, ratio_chart, roof_chart, status_chart
from kgen.sweep.queries import RANKED
from kgen.sweep.store import Store

SQUARE = (4096, 4096, 4096)
SIZES = (5, 5000)
WIDTHS = {"phone": (390, 844), "desktop": (1280, 900)}


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results files of 5, 400 and 5000 points, and one that no GPU has timed."""
    folder = tmp_path_factory.mktemp("report")
    for points in (*SIZES, 400):
        fill(folder / f"{points}.sqlite", points)
    fill(folder / "static.sqlite", 60, timed=False)
    return folder


@pytest.fixture(scope="module")
def report(samples: Path) -> Report:
    with Store.read(samples / "400.sqlite") as store:
        return load(store, "sample")


# --- what is shown


def test_a_heat_map_holds_the_best_of_each_pair_and_why_there_is_none(report: Report) -> None:
    pair = ("schedule.stages", "schedule.raster.group")
    assert pair in axis_pairs(report)
    shown = heat_map(report, pair, SQUARE)
    assert shown and (len(shown.rows), len(shown.rows[0])) == (5, 5)
    for y, group in enumerate(report.settings["axes"]["schedule.raster.group"]):
        for x, stages in enumerate(report.settings["axes"]["schedule.stages"]):
            known = [
                report.value(c, SQUARE)
                for c in report.cells
                if c.status in RANKED
                and (c.axes["schedule.stages"], c.axes["schedule.raster.group"]) == (stages, group)
            ]
            best = max((v for v in known if v is not None), default=None)
            assert shown.rows[y][x].value == best
            assert 0 <= shown.rows[y][x].level <= 1
    empty = [cell for row in shown.rows for cell in row if cell.value is None]
    assert all("no such point" in c.title or "points:" in c.title for c in empty)
    levels = [c.level for row in shown.rows for c in row if c.value is not None]
    assert max(levels) == 1


def test_small_differences_do_not_look_like_the_whole_scale(report: Report) -> None:
    """Values within half a percent of each other all get nearly the same colour."""
    shown = heat_map(report, ("schedule.release", "schedule.l2.promotion_bytes"), SQUARE)
    assert shown
    cells = [c for row in shown.rows for c in row if c.value is not None]
    values = [c.value or 0 for c in cells]
    assert max(values) - min(values) < 0.005 * max(values)
    assert min(c.level for c in cells) > 0.9


def test_a_ladder_leads_to_the_winner_through_kernels_of_the_sweep(report: Report) -> None:
    rungs = ladder(report, SQUARE)
    assert rungs[-1].kernel == report.winners[SQUARE].kernel
    names = {c.kernel for c in report.cells}
    assert {r.kernel for r in rungs} <= names
    assert rungs[0].change.startswith("tile m 64, n 256, k 64, stages 2, group 1")


def test_the_mean_over_problems_wants_every_problem(report: Report) -> None:
    cell = next(c for c in report.cells if c.status == "screened")
    ratios = [t.ratio or 0 for t in cell.timings.values()]
    assert len(ratios) == len(PROBLEMS)
    assert report.value(cell, None) == pytest.approx(math.prod(ratios) ** (1 / len(ratios)))
    lost = next(c for c in report.cells if c.status == "hung")
    assert report.value(lost, None) is None


def test_the_roofline_has_the_ceiling_that_power_leaves(report: Report) -> None:
    """132 SMs x 4096 FLOP a clock: 1070.5 TFLOPS at 1980 MHz, 819.1 at the 1515 MHz held."""
    found = roof(report)
    assert found and found.peak == pytest.approx(1070.5, abs=0.1)
    assert found.held_mhz == 1515 and found.held == pytest.approx(819.1, abs=0.1)
    square = next(p for p in found.points if p[0] == "4096x4096x4096")
    assert square[1] == pytest.approx(2 * 4096 / 6)  # 2 n^3 FLOP over 3 n^2 elements of 2 bytes
    assert [p[3] for p in found.points] == pytest.approx([700.0] * 3)


def test_losses_are_counted_by_rule(report: Report) -> None:
    found = {(row.status, row.rule): row.points for row in losses(report)}
    assert found == {
        ("infeasible", "schedule.stages: N stages do not fit in sm_90a shared memory"): 40,
        ("ptxas_rejected", "kernel: ptxas reports what no kgen build may have"): 16,
        ("hung", "screen at NxNxN: no answer in N s; its process was stopped"): 10,
    }


def test_intervals_say_what_is_decided(report: Report) -> None:
    rows = intervals(report)
    assert [row.problem for row in rows] == [p[0] for p in PROBLEMS]
    assert {row.verdict for row in rows} <= {"faster", "slower", "undecided"}
    for row in rows:
        assert row.low is not None and row.high is not None
        assert (row.verdict == "undecided") == (row.low <= 1 <= row.high)


def test_the_page_says_what_the_winners_gain_together(samples: Path, report: Report) -> None:
    rows, found = intervals(report), dispatch_means(report)
    assert [m.problems for m in found] == [len(rows)] * 2
    assert all(r.tuned and r.tuned.median == pytest.approx(0.98 * r.ratio) for r in rows)
    html = page(samples / "400.sqlite")
    for mean in found:
        assert f"<strong>{mean.ratio.median:.3f}</strong>" in html and mean.baseline in html
    tuned = rows[0].tuned
    assert tuned and f"{tuned.median:.3f} [{tuned.low:.3f}..{tuned.high:.3f}]" in html
    assert "geometric mean" not in page(samples / "static.sqlite")


def test_pictures_are_svg_and_the_same_every_time(report: Report) -> None:
    rows, lost, found = intervals(report), losses(report), roof(report)
    assert found
    makers = [
        lambda: ratio_chart(rows, "torch.mm"),
        lambda: roof_chart(found, "torch.mm"),
        lambda: loss_chart(lost),
        lambda: status_chart([("timed", 3), ("hung", 1)]),
        lambda: ladder_chart(ladder(report, SQUARE), "speed", True),
    ]
    for make in makers:
        svg = make()
        assert ET.fromstring(svg.encode()).tag.endswith("svg") and svg == make()
        assert "<text" not in svg, "text is drawn, so that no font is needed"


# --- the page


def test_the_page_holds_everything_and_fetches_nothing(samples: Path) -> None:
    html = page(samples / "400.sqlite")
    links = re.findall(r'(?:src|href)\s*=\s*"([^"]{0,30})', html)
    assert links and all(link.startswith("data:image/svg+xml;base64,") for link in links)
    assert "default-src 'none'" in html and "@import" not in html
    assert html == page(samples / "400.sqlite")
    for words in ("Roofline", "Where points were lost", "From the plainest", "What pairs of axes"):
        assert words in html


def test_a_page_without_a_gpu_says_so(samples: Path) -> None:
    html = page(samples / "static.sqlite")
    assert "No GPU has timed these kernels: they are ranked by static figures" in html
    assert "Roofline" not in html and "operand bytes loaded per FLOP" in html


def test_names_from_a_file_stay_text(tmp_path: Path) -> None:
    """A problem's name or a reason may hold anything."""
    hostile = '</script><script>window.x = 1</script><img src=x onerror="window.x=1">'
    fill(tmp_path / "h.sqlite", 5)
    with Store.open(tmp_path / "h.sqlite") as store:
        store.rows("UPDATE problem SET name = ?", hostile)
        store.rows("UPDATE point SET reason = ? WHERE number = 3", hostile)
    html = page(tmp_path / "h.sqlite")
    assert "<script>window" not in html and "<img src=x" not in html
    assert html.count("</script>") == 2


def test_an_unfinished_sweep_has_a_page_too(tmp_path: Path) -> None:
    settings = {
        "axes": {"schedule.stages": [2, 3]},
        "rank": {"measured": "ratio", "static": ["ring_bytes"]},
        "toolchain": "t",
        "device": None,
    }
    with Store.open(tmp_path / "e.sqlite") as store:
        store.begin("e", "0" * 12, "", settings)
    html = page(tmp_path / "e.sqlite")
    assert "0 points, 0 problems" in html and "still running, or killed" in html


def test_a_page_of_no_sweep_is_refused(tmp_path: Path) -> None:
    with Store.open(tmp_path / "e.sqlite"):
        pass
    with pytest.raises(KgenError, match="holds 0 sweeps"):
        page(tmp_path / "e.sqlite")


# --- in a browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = executable()
    if program is None:
        pytest.skip("no Chromium on this machine, so no page was opened (Debian: chromium)")
    found = Browser(program, tmp_path_factory.mktemp("profile"))
    yield found
    found.close()


# Elements wider than the window, those aside that lie in a box of their own that scrolls.
OVERFLOWING = """
[...document.querySelectorAll("body *")].filter(e => !e.closest(".scroll")
  && e.getBoundingClientRect().right > innerWidth + 0.5).map(e => e.outerHTML.slice(0, 120))
"""
# Text that its own box cuts off.
CLIPPED = """
[...document.querySelectorAll("body *")].filter(e => e.scrollWidth > e.clientWidth + 1
  && e.clientWidth && getComputedStyle(e).overflowX === "hidden")
  .map(e => e.outerHTML.slice(0, 120))
"""


@pytest.mark.parametrize("points", [*SIZES, "static"])
@pytest.mark.parametrize("window", WIDTHS)
def test_nothing_overflows_and_no_script_fails(
    browser: Browser, samples: Path, window: str, points: int | str
) -> None:
    path = samples / f"{points}.html"
    if not path.exists():
        path.write_text(page(samples / f"{points}.sqlite"))
    browser.problems.clear()
    browser.open(path, *WIDTHS[window])
    browser.value("document.querySelectorAll('details').forEach(d => { d.open = true })")
    assert browser.problems == []
    assert browser.value("innerWidth") == WIDTHS[window][0]
    assert browser.value("document.documentElement.scrollWidth <= innerWidth")
    assert browser.value(OVERFLOWING) == []
    assert browser.value(CLIPPED) == []
    images = "[...document.images]"
    assert browser.value(f"{images}.length > 1 && {images}.every(i => i.naturalWidth > 0 && i.alt)")
    if folder := os.environ.get("KGEN_SCREENSHOTS"):
        Path(folder, f"{points}.{window}.png").write_bytes(browser.screenshot())


def test_the_table_of_points_finds_sorts_and_grows(browser: Browser, samples: Path) -> None:
    path = samples / "table.html"
    path.write_text(page(samples / "400.sqlite"))
    browser.problems.clear()
    browser.open(path, *WIDTHS["desktop"])
    rows = "document.querySelectorAll('#points tbody tr')"
    assert browser.value(f"{rows}.length") == 100
    browser.value("document.getElementById('more').click()")
    assert browser.value(f"{rows}.length") == 200

    def enter(element: str, text: str, event: str) -> None:
        what = f"e.value = '{text}'; e.dispatchEvent(new Event('{event}'))"
        browser.value(f"(e => {{ {what} }})(document.getElementById('{element}'))")

    enter("status", "hung", "change")
    assert browser.value(f"{rows}.length") == 10
    enter("status", "", "change")
    enter("words", "ptxas_rejected 00000020", "input")
    assert browser.value(f"{rows}.length") == 1
    enter("words", "", "input")
    figures = f"[...{rows}].map(r => parseFloat(r.cells[2].textContent))"
    assert (shown := browser.value(figures)) == sorted(shown, reverse=True), "the best first"
    browser.value("document.querySelectorAll('#points th button')[2].click()")
    assert (turned := browser.value(figures)) == sorted(turned) and turned[0] < shown[-1]
    assert browser.problems == []


def test_hostile_names_run_nothing_in_a_browser(browser: Browser, tmp_path: Path) -> None:
    hostile = (
        '<img src="x:y" onerror="window.harmed = 1"></script><script>window.harmed = 1</script>'
    )
    fill(tmp_path / "h.sqlite", 5)
    with Store.open(tmp_path / "h.sqlite") as store:
        store.rows("UPDATE problem SET name = ?", hostile)
        store.rows("UPDATE point SET reason = ? WHERE number = 3", hostile)
    (tmp_path / "h.html").write_text(page(tmp_path / "h.sqlite"))
    browser.problems.clear()
    browser.open(tmp_path / "h.html", *WIDTHS["phone"])
    assert browser.value("window.harmed") is None and browser.problems == []
    assert browser.value("document.documentElement.scrollWidth <= innerWidth")
