"""The sealed release: an oblivious PRF on Curve25519, zero sharings, and sealed rows.

All but `month_keys` and `point_cache` are pure functions of messages and keys.
"""
