"""The DAGs of federation files: tasks, sensors, notifications and run notes.

`factory.federation_dags` builds them in a DAG file; `task_group.FederationTaskGroup` puts a run
into a handwritten DAG.
"""
