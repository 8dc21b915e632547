"""Scoring of single rows at the label holder, without the other parties.

`scorer.Scorer` scores rows in Python; `app.serve` does so over HTTP.
"""
