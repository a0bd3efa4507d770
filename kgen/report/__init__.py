"""The report of a sweep: one offline HTML file.

data      what the pictures show, from the results file; pure
ladders   the way from the plainest kernel of a sweep to its best; pure
pictures  charts as SVG (matplotlib)
page      the HTML around them
"""

from kgen.report.page import page

__all__ = ["page"]
