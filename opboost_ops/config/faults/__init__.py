"""Inconsistencies of a federation file or policy whose single entries are valid.

`federation.federation_faults` finds those of a federation file; the other modules find those of
single entries.
"""
