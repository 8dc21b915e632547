"""A party's state and keys in one encrypted file, and back.

1. `archive`: a tar file in the age format; its manifest says what each entry must be.
2. `writing`: makes one while runs go on.
3. `restoring`: verifies everything, moves the present state (`present`) aside, restores the backup.

`pipeline.party.rollback` then finds what was released since the backup.
"""
