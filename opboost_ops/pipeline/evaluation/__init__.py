"""Evaluation on held-out rows, the baseline, the gate and the scores.

`held_out.judge` evaluates a model, `gate` compares it with the version that `reference` selects and
decides whether it becomes champion, `scores` makes the columns of scores and delivers them.
"""
