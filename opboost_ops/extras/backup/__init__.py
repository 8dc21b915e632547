"""Backup and restore of a party's state and keys, in one encrypted file.

1. `archive`: a tar file in the age format, whose manifest has the digest of each entry.
2. `writing`: makes a backup while runs continue.
3. `restoring`: verifies the backup, moves the present state (`present`) aside, and restores.

`pipeline.party.rollback` then finds what was released since the backup.
"""
