"""A party's part in a run, from the plan to the last artifact.

The life of a run, in order, and the file of each step:

1. `phases` says which role runs which stages, in which order.
2. `opening`: the label holder resolves federation file and form, and publishes the signed plan.
3. `invitations`: a party in an Airflow of its own finds the runs that wait for it.
4. `inbox`: a party takes the plan, and afterwards every artifact, in the order of the protocol.
5. `runner`: the one way to execute a stage: inputs, the stage itself, what it publishes, the books.
6. `publication`: reserve in the ledger, put into the store, commit.
7. `disclosures`: what leaves without an artifact, as lines of the same ledger.
8. `mailboxes`: a party's side of the rounds of horizontal learning.
9. `sessions`: a session of sums is held once, with a nonce of its own.
10. `timings`: how long stages took, which stays at home.
11. `table_watch`: whether a party's table has changed, which begins the next run.

Two ways of driving a run without Airflow: `local` starts a process a party, and `party_process` is
what such a process does. `leakage`: attacks that a party runs at home on the release it would make.
"""
