"""Blocks, and what renders them; it knows nothing of the domain.

`blocks` has tables, facts, notes and figures; `html.page_html`, `terminal.rich_table` and
`spreadsheets.table_csv` render them.
"""
