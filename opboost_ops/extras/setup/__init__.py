"""Setup of a federation: offers, bounds and keys.

`offers.init` writes a party's offer from its table, `federation_file.federate` joins offers,
`bounds.fill_in` adds public facts about columns, `keys.make_keys` makes a party's keys,
`keys.pin_key` pins receivers' keys in ``policy.yaml``.
"""
