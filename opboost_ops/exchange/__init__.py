"""Signed artifacts between parties, and the state of what a party sent and accepted.

`artifact.Draft` becomes signed and encrypted bytes, `acceptance.Acceptance` accepts artifacts in
protocol order, and `party_state.open_state` opens a party's database and pins. `store` contains the
stores, `sealed` the sealed rows, and `rounds` the messages of horizontal learning.
"""
