"""What a party's own people set up by hand: first files, bounds, keys and pinned columns.

`draft` writes the files of a new federation from the parties' tables (`tables`, `columns`);
`bounds` fills in what is public about columns; `keys` makes, shows and renews a party's keys;
`policy_file` pins columns and receivers' keys in ``policy.yaml``.
"""
