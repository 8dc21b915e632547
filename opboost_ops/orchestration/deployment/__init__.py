"""Installation, checks and processes of an Airflow deployment.

`installation.plan` lists the changes to an Airflow home, `doctor.examine` reports problems of a
deployment, and `standalone.Standalone` runs one for the demo.
"""
