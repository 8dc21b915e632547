"""The store: the only channel between parties, in a folder or a bucket.

`store.open_store` opens the store of a URL; `store.Store` is the protocol that each one follows.
"""
