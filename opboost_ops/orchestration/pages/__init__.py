"""Pages in Airflow's UI, each behind the access rule of its party.

`app.make_app` is the application; `answers` has the list of pages, `airflow_tables` is the only
module that names the tables of Airflow's database.
"""
