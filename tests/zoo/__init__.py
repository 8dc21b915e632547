"""About 200 odd tables, each with one meaning or one refusal at every entry point."""

from tests.zoo import arrow_tables, text_tables

ALL = [*text_tables.ALL, *arrow_tables.ALL]
