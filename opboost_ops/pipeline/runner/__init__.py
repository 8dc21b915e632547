"""The execution of a run at one party.

- `opening.open_run`: the label holder publishes the signed plan.
- `readiness` and `preflight` report what would stop the run, with `expected_cost` and
  `disk_space`.
- `runner.run_stage`: inputs, step, publication, ledger entries; `drawing` numbers and charges
  releases; `publication.publish` reserves, puts into the store, and commits.
- `disclosures`, `exact_releases`: what leaves without an artifact or without an epsilon.
- `mailboxes`, `sessions`: a party's side of the rounds of horizontal learning.
- `timings`, `progress`, `facts`, `artifact_sizes`: what was measured.

`local.run_federation` runs all parties without Airflow: a `worker` for each, in a process or a
thread of its own. `fork_server` forks those processes from one that has imported everything
(`preload`).
"""
