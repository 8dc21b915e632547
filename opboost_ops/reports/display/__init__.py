"""Blocks and their renderers, independent of the domain.

`blocks` defines tables, facts, notes and figures; `html.page_html`, `tables.rich_table` and
`tables.table_csv` render them.
"""
