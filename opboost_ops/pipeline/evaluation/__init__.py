"""Evaluation on held-out rows, the baseline, the gate and the scores.

`held_out.judge` evaluates a model, `gate.gate` and `interval_gate.interval_gate` decide whether it
becomes champion, `scores` makes the columns of scores and delivers them.
"""
