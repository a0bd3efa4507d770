"""Generated lines that a long name makes too long."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from kgen.lines import LINE_LENGTH, wrap

LONG = "a_kernel_whose_name_has_as_many_characters_as_a_name_may_have__"


def tokens(text: str) -> list[str]:
    """What a compiler sees of one line of code, blanks aside."""
    return re.findall(r'"(?:\\.|[^"\\])*"|\w+|[^\w\s]', text)


def test_short_lines_stay():
    text = f"int x;  // y\n{'x' * LINE_LENGTH}\n"
    assert wrap(text) == text


def test_a_condition_keeps_its_line():
    name = LONG[:40]
    line = f"    if (error != cudaSuccess || prepare(device) != {name}) return {name};"
    assert wrap(line).split("\n") == [
        f"    if (error != cudaSuccess || prepare(device) != {name})",
        f"        return {name};",
    ]


def test_it_breaks_where_fewest_brackets_are_open():
    line = f"    first(second({LONG}, third), fourth(fifth, sixth, seventh, eighth, ninth), tenth);"
    assert wrap(line).split("\n") == [
        f"    first(second({LONG}, third),",
        "        fourth(fifth, sixth, seventh, eighth, ninth), tenth);",
    ]


def test_a_note_goes_above_its_code():
    assert wrap(f"    {LONG}(a, b, c);  // what it is good for, in some more words") == (
        f"    // what it is good for, in some more words\n    {LONG}(a, b, c);"
    )


def test_one_statement_has_one_hanging_indent():
    found = wrap(f"    {LONG}, second_{LONG}, third_{LONG},").split("\n")
    assert found == [f"    {LONG},", f"        second_{LONG},", f"        third_{LONG},"]


def test_a_long_name_takes_a_line_of_its_own():
    line = f"    const void* kernel = reinterpret_cast<const void*>(&::{LONG});"
    assert wrap(line).split("\n") == [
        "    const void* kernel =",
        "        reinterpret_cast<const void*>(",
        f"            &::{LONG});",
    ]
    assert wrap(f"extern const struct {LONG}_kernel {LONG}_kernels[];").split("\n") == [
        f"extern const struct {LONG}_kernel",
        f"    {LONG}_kernels[];",
    ]


def test_slashes_inside_a_string_are_no_note():
    text = f'    "{LONG}  // a", "{LONG}",'
    assert wrap(text) == f'    "{LONG}  // a",\n        "{LONG}",'
    assert wrap(f"{text}  // b") == f"    // b\n{wrap(text)}"


def test_comments_keep_their_indent():
    found = wrap("    // " + "word " * 40).split("\n")
    assert len(found) == 3
    assert all(line.startswith("    // word") for line in found)
    rows = wrap("//   full  " + "word " * 40).split("\n")
    assert all(row.startswith("//     word") for row in rows[1:])


def test_strings_and_preprocessor_lines_stay_whole():
    text = f'call({LONG}, "one, two, three, four, five, six, seven, eight, nine, ten", x);'
    first, second = wrap(text).split("\n")
    assert first == f"call({LONG},"
    assert second == '    "one, two, three, four, five, six, seven, eight, nine, ten", x);'
    directive = f"#if defined({LONG}) && defined({LONG}_more)"
    assert wrap(directive) == directive


@given(
    st.lists(
        st.sampled_from([*"(){}", "name", '"a, b"', ", ", " ? ", " : ", " && ", " return 1"]),
        min_size=20,
        max_size=80,
    )
)
def test_only_blanks_change(parts):
    line = "    " + "".join(parts)
    assert tokens(wrap(line)) == tokens(line)
