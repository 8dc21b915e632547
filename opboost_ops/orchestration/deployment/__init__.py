"""Installation, checks and processes of an Airflow.

`installation.plan` lists the changes to an Airflow home, `doctor.examine` finds what one lacks,
`standalone.Standalone` runs one for the demo.
"""
