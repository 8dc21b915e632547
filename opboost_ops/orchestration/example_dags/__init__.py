"""Examples of DAGs of your own, to copy."""
