"""Data-quality checks at the boundaries: of tables, releases, models and scores.

`checks.run_suite` runs a suite of `suites`, `drift.compare` compares two profiles,
`live` counts scores and columns in production.
"""
