"""A party's part in a run, from the plan to the last artifact.

`phases.phases` returns the order of the protocol, `catalogue` the functions of its steps; `stage`
defines the inputs and results of a step, and `home.Home` is a run's private folder.

- `party`: agreements, keys, inbox and checks of one party.
- `runner`: the plan, the execution of steps, publication.
- `steps`: one module per step.
- `inputs`, `matching`, `evaluation`: code shared by steps for a party's table, the sealed exchange,
  and the held-out rows with the gate.
"""
