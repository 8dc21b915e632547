"""First files of a federation, bounds, keys and pinned columns.

`offers.init` writes a party's offer from its tables, `federation_file.federate` joins offers,
`bounds.fill_in` takes what is public about columns, `keys.make_keys` makes a party's keys,
`keys.pin_key` pins those of receivers in ``policy.yaml``.
"""
