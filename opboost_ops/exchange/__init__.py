"""Signed artifacts between parties, and the state of what a party sent and accepted.

`artifact.Draft` becomes signed and encrypted bytes, `acceptance.Acceptance` takes artifacts in the
order of the protocol, `party_state.open_state` opens a party's database and pins. `store` has the
stores, `sealed` the sealed rows, `rounds` the messages of horizontal learning.
"""
