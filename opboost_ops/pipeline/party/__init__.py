"""One party: its agreements, the keys and store that it trusts, and the plans that it accepts.

- `agreement`: agreeing, withdrawing, and whether the party has stopped taking part.
- `admission.admit`: compares a plan with agreement and policy before any table is opened.
- `inbox.accept_plan`: accepts a run's plan, then each artifact in protocol order.
- `trust`: the keys and the store that a party trusts, judged by its own `clock`.
- `approval`, `admin_actions`: decisions of the party's people.
- `rollback` compares the database with the newest signed checkpoint; `recovery` charges
  releases that the ledger lost.
- `forgetting.forget`: removes a person, and lists what cannot be recalled.
- `site_faults`, `own_table`: faults of the sites on one machine, and of a party's own table.
- `invitations`: runs that another Airflow has opened.
"""
