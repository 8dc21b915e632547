"""A party's part in a run, from the plan to the last artifact.

`phases.phases` is the order of the protocol, `catalogue` names the steps, `stage` says what a step
gets and returns, `home.Home` is a run's private folder.

- `party`: agreements, keys, inbox and checks of one party.
- `runner`: the plan, the execution of steps, publication.
- `steps`: a file for each step.
- `inputs`, `matching`, `evaluation`: what steps share: a party's table, the sealed exchange, the
  held-out rows and the gate.
"""
