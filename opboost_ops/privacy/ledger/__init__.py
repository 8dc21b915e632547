"""A party's ledger: its entries, budgets and checkpoints in one database.

`entries.Ledger` reserves and adds entries, `budgets.Budget` compares them with a cap,
`query_counts.QueryCounts` counts the people of queries, `database.Database` is SQLite or
PostgreSQL.
"""
