"""One party: what it has agreed to, which keys and store it trusts, what it accepts.

- `agreement`: agreeing, withdrawing, and whether the party takes part at all.
- `admission.admit`: a plan is compared with agreement and policy before a table is opened.
- `inbox.accept_plan`: a party takes the plan, and afterwards every artifact in order.
- `trust`: the keys and the store that a party trusts, by its own `clock`.
- `approval`, `admin_actions`: what a person of the party decides.
- `rollback` compares the database with the newest signed checkpoint; `recovery` charges
  what the ledger lost; `forgotten_rows` removes a forgotten person from copies.
- `site_faults`, `own_table`: faults at one machine's sites, and what a table's people should know.
- `invitations`: runs of another Airflow.
"""
