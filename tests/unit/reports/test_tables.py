"""Tables as text: no cell is a formula to a spreadsheet, and each comes back as it was."""

import csv
import io
import re

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from opboost_ops.reports.display.tables import csv_text, plain_texts, text_of

SIGNS = "=+-@\uff1d"


@given(st.text(alphabet=f"{SIGNS}'\" ;\t\r\na1", max_size=8))
def test_an_escaped_cell_is_no_formula_and_comes_back(text: str) -> None:
    rows = csv.reader(io.StringIO(csv_text(("name", text), ()), newline=""))
    _, cell = next(rows)
    for part in re.split("[;\t\r\n]", cell):
        assert part.lstrip('" ')[:1] not in {*SIGNS}
    assert text_of(cell) == text
    assert plain_texts(pl.DataFrame({"a": [text]}))["a"].item() == cell
