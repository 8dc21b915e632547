"""Sites that only call out: what the coordinator's proxy and the sites need beside Airflow."""
