"""The sealed release: an oblivious PRF on Curve25519, zero sharings, and sealed rows.

`oprf` and `engine.Engine` find common people, `sealing.seal_rows` and `sealing.open_rows` encrypt
and decrypt rows, `zero_shares.Sharings` masks them. All modules are pure functions of messages and
keys, except `month_keys`, which stores keys and points in files.
"""
