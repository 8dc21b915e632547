"""A party's state and keys in one encrypted file, and back.

1. `encryption`: to a passphrase or a public key, chunk by chunk.
2. `archive`: the one file: its entries, and the sealed manifest that says what they must be.
3. `writing`: makes it while runs go on; `second_names`: files as they are at one moment.
4. `party_keys`: the party's keys.
5. `present`: what lies at a site before anything is put there.
6. `places`: where a backup is unpacked, and the way back as long as it is not all in place.
7. `restoring`: verifies everything, moves the present state aside, restores the backup.

What has happened since the backup, `run.rollback` finds.
"""
