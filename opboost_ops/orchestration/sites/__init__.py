"""Outbound-only sites: what the coordinator's proxy and the sites need beside Airflow."""
