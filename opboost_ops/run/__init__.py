"""A party's part in a run, from the plan to the last artifact.

The life of a run, in order, and the file of each step:

1. `agreement`: what a party has agreed to answer, pinned in its database; `changes` tells in words
   what is new.
2. `phases` says which role runs which stages, in which order.
3. `opening`: the label holder resolves federation file and form (`form_values`), and publishes the
   signed plan.
4. `invitations`: a party in an Airflow of its own finds the runs that wait for it.
5. `known_store`: only the store that a party has pinned at its first run is read and written.
   `inbox`: a party takes the plan, and afterwards every artifact, in the order of the protocol.
6. `admission`: the plan is held against agreement and policy before any table is opened;
   `known_keys`: whose keys a party believes, and as of which day, by its own `clock`.
   `preflight`: before a party's first work, all that would stop it later is told at once, with
   `expected_cost` against its budgets and `room` on its disks; `readiness` asks all
   parties on one machine, `site_faults` finds what is wrong at their sites and tables, and
   `small_tables` warns where a private model has too few rows, and `domain_fillings` shows how
   each column fills its domain.
7. `approval`: a person of the party is asked before a release, where its policy says so;
   `runner`: the one way to execute a stage: inputs, stage, what it publishes, ledger entries.
   `admin_actions`: what a person does to a federation at one party;
   `taking_part`: whether the party takes part in it at all.
8. `drawing`: a run's draw is numbered, held back and charged in one transaction.
9. `publication`: reserve in the ledger, put into the store, commit.
10. `disclosures`: what leaves without an artifact, as lines of the same ledger;
    `exact_releases`: all that a run sends without an epsilon, before it does.
11. `mailboxes`: a party's side of the rounds of horizontal learning; `sessions`: each is held once,
    with a nonce of its own.
12. `timings`: how long stages took, and `progress`: how far one is that runs; both stay at home.
    `artifact_sizes`: the bytes that crossed the exchange.
    `upcoming_limits`: reports at home, in time, what will stop later runs; `facts`: what may be
    watched over time from outside.
13. `table_watch`: whether a party's table has changed, which begins the next run.
14. `rollback` compares the party's database with the newest checkpoint that it has signed;
    `recovery` charges the releases in between, and private edges that the ledger lost
    (`edge_gaps`).
15. `forgotten_rows`: who is forgotten leaves the copies that runs have made of sources.

`local` runs all parties without Airflow: a `worker` for each, in a
process or a thread of its own, with its own site and environment (`party_sites`). `fork_server`
forks those processes from one that has imported everything (`preload`). `leakage`: attacks that a
party runs at home on the release it would make. `private_edges`: edges of cells that it draws at
home from its own table, before they are agreed.
"""
