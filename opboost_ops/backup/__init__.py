"""A party's books out of the house and back.

1. `archive`: the one file: its entries, and the sealed manifest that says what they must be.
2. `writing`: makes it while runs go on; `second_names`: files as they are at one moment.
3. `sealed_keys`: the party's keys in a file of their own, encrypted.
4. `present`: what lies at a site before anything is put there.
5. `places`: where a backup is unpacked, and the way back as long as it is not all in place.
6. `restoring`: verifies all, keeps what was there aside, puts the books back.

What has happened since the backup, `run.rollback` finds.
"""
