"""The steps of the protocol: each takes its party's `Context` and returns an `Outcome`."""
