"""Airflow integration: the DAGs of federation files, pages in Airflow's UI, and deployments.

`plugin` and `settings` are the entry points; `dags.factory.federation_dags` builds the DAGs.
"""
