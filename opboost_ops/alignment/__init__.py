"""Private alignment: an oblivious PRF on Curve25519, and what is built of it.

Pure functions of messages and keys: nothing here reads a file, a clock or a network.
"""
