"""The steps of the protocol: each takes what its party has and returns an `Outcome`."""
