"""Airflow: DAGs of federation files, pages in its UI, and deployments.

`plugin` and `settings` are the entry points; `dags.factory.federation_dags` makes the DAGs.
"""
