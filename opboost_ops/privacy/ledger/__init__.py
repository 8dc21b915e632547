"""A party's ledger: its entries, budgets and checkpoints in one database.

`entries.Ledger` reserves and adds entries, `budgets.Budget` compares them with a cap,
`database.Database` is SQLite or PostgreSQL, `statement` words the entries for people.
"""
