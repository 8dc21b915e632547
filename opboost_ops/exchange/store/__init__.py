"""The store: the only channel between parties, in a folder or a bucket.

`store.open_store` opens the store at a URL; `store.Store` is the protocol of all stores.
"""
