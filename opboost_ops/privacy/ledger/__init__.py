"""A party's ledger: its entries, budgets and checkpoints in one database.

`entries.Ledger` reserves and adds entries, `budgets.Budget` compares them with caps,
`query_counts.QueryCounts` counts queried people, and `database.Database` is SQLite or PostgreSQL.
"""
