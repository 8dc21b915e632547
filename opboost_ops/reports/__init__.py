"""Views of a party's facts as blocks, for pages, terminal, CSV, JSON and data frames.

`ledger.ledger_of`, `consent_sheet.consent_sheet`, `versions.models_of` and
`version_page.version_blocks` build views from facts that the caller passes; `display` renders
blocks.
"""
