"""The execution of a run at one party.

- `opening.open_run`: the label holder publishes the signed plan.
- `readiness` and `preflight` report what would stop the run, `disk_space` among it.
- `runner.run_stage`: inputs, step, publication, ledger entries; `drawing` compares releases with
  the budgets and charges them; `publication.publish` reserves, puts into the store, and commits.
- `disclosures`, `exact_releases`: what leaves without an artifact or without an epsilon.
- `mailboxes`: a party's side of the rounds of horizontal learning.
- `progress`, `facts`: what was measured.

`local.run_federation` runs all parties without Airflow: a `worker` for each, in a process or a
thread of its own. `fork_server` forks those processes from one that has imported everything
(`preload`).
"""
