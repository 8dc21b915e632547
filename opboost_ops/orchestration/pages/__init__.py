"""Pages in Airflow's UI, each subject to its party's access rule.

`app.make_app` returns the application, `answers` lists the pages, and only `airflow_tables` names
the tables of Airflow's database.
"""
