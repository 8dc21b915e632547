"""Privacy-preserving vertical federated gradient boosting, run by Airflow."""

__version__ = "0.3.0"
