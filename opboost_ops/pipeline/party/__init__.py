"""One party: what it has agreed to, which keys and store it trusts, what it accepts.

- `agreement.agree`: what a party answers, pinned in its database.
- `admission.admit`: a plan is compared with agreement and policy before a table is opened.
- `inbox.accept_plan`: a party takes the plan, and afterwards every artifact in order.
- `known_keys`, `known_store`: the keys and the store that a party trusts, by its own `clock`.
- `approval`, `admin_actions`, `taking_part`: what a person of the party decides.
- `rollback` compares the database with the newest signed checkpoint; `recovery` and `edge_gaps`
  charge what the ledger lost; `forgotten_rows` removes a forgotten person from copies.
- `site_faults`, `small_tables`, `domain_fillings`: faults and warnings at one machine's sites.
- `invitations`, `table_watch`: runs of another Airflow, and changes of a table.
"""
