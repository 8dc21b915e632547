"""The arrows of the protocol: each takes what its party has and gives what it may pass on."""
