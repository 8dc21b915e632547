"""A federation of as many parties as a page must have room for, with long names."""

from dataclasses import replace
from typing import Any

from opboost_ops.extras.datasets.tables import ID, Dataset
from tests.federation import small_credit

LONG = "transactions_by_instalment_in_the_last_twelve_months"


def many_parties(parties: int) -> Dataset:
    """The generated federation with the bank's columns split among all but one party.

    Args:
        parties: How many, the label holder among them.
    """
    made = small_credit(rows=300)
    columns = list(made.features["bank"])
    tables, features = {"credit": made.tables["credit"]}, {"credit": made.features["credit"]}
    rows: dict[str, Any] = {"credit": made.new_rows["credit"]}
    for number in range(1, parties):
        party, column = f"regional_bank_{number:02d}", columns[number % len(columns)]
        names = {column: LONG if number == 1 else column}
        tables[party] = made.tables["bank"].select(ID, column).rename(names)
        rows[party] = made.new_rows["bank"].select(ID, column).rename(names)
        features[party] = {names[column]: made.features["bank"][column]}
    return replace(made, tables=tables, features=features, new_rows=rows)
