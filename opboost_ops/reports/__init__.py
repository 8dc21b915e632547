"""Views: a subject's facts as blocks, for pages, terminal, CSV, JSON and frames.

`ledger.ledger_of`, `consent_sheet.consent_sheet`, `versions.models_of` and
`version_page.version_blocks` make views of facts that the caller passes; `display` renders blocks.
"""
