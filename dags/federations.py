"""The DAGs of each federation file in the folder that OPBOOST_FEDERATIONS names, for Airflow.

The files are read at every parse of this one: a new file becomes a DAG by itself.
"""

from opboost_ops.orchestration.dags.factory import federation_dags

globals().update(federation_dags())
