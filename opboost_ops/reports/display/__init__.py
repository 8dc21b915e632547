"""Blocks, and what renders them; it knows nothing of the domain.

`blocks` has tables, facts, notes and figures; `html.page_html`, `tables.rich_table` and
`tables.table_csv` render them.
"""
