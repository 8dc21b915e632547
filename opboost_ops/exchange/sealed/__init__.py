"""The sealed release: an oblivious PRF on Curve25519, zero sharings, and sealed rows.

`oprf` and `engine.Engine` find common people, `sealing.sealed` and `sealing.opened` carry rows,
`zero_shares.Sharings` mask them. All but `month_keys`, which keeps keys and points in files, are
pure functions of messages and keys.
"""
