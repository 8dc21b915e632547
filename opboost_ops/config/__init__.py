"""Immutable models of the declared files ``federation.yaml``, ``site.yaml`` and ``policy.yaml``.

`loading.load_federation`, `loading.load_site` and `loading.load_policy` read them and report all
faults at once; `faults` finds inconsistencies between entries.
"""
