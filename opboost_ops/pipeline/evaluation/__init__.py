"""Held-out rows, the baseline, the gate and what scores are written from.

`held_out.judge` evaluates a model, `gate.gate` and `interval_gate.interval_gate` decide whether it
becomes champion, `scores` makes the columns of scores and delivers them.
"""
