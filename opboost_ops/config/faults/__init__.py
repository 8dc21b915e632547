"""Faults of a federation file or policy whose entries each have the right form.

`federation.federation_faults` finds those of a federation file; each other module finds those of
one entry.
"""
