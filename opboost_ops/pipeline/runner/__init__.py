"""Execution of a run at one party.

- `opening.open_run`: the label holder publishes the signed plan.
- `readiness` and `preflight` report everything that blocks the run, `disk_space` included.
- `runner.run_stage`: inputs, step, publication, ledger entries; `run_releases` compares releases
  with the budgets and charges them; `publication.publish` reserves, puts into the store, commits.
- `exact_disclosures` of a run as declared; `disclosures`: ledger entries without an artifact.
- `mailboxes`: a party's side of the rounds of horizontal learning.
- `progress`, `facts`: progress of a stage, and measurements.

`local.run_federation` runs all parties without Airflow, each with a `worker` in its own process.
`fork_server` forks these processes from one that has imported everything (`preload`).
"""
