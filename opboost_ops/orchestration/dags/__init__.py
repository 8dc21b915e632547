"""The DAGs of federation files, their tasks, sensors and notes.

`factory.federation_dags` makes them for a DAG file, `task_group.FederationTaskGroup` puts a
run into a DAG that people write themselves.
"""
