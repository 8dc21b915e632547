"""Who may look: Airflow's login, and its permissions on DAGs."""

from collections.abc import Callable
from typing import Annotated, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import (
    AccessView,
    DagAccessEntity,
    DagDetails,
)
from airflow.api_fastapi.core_api.security import get_user, requires_access_view
from fastapi import Depends

#: Of the pages as a whole: anyone who may see the plugins, and so their navigation.
LOGGED_IN = Depends(requires_access_view(AccessView.PLUGINS))


def may_see_dag(user: Any, dag: str) -> bool:
    """Whether a user may see the runs of a DAG.

    Args:
        user: Who is logged in.
        dag: The DAG's id.
    """
    return bool(
        get_auth_manager().is_authorized_dag(
            method="GET",
            access_entity=DagAccessEntity.RUN,
            details=DagDetails(id=dag),
            user=user,
        )
    )


def _dag_reader(user: Annotated[Any, Depends(get_user)]) -> Callable[[str], bool]:
    return lambda dag: may_see_dag(user, dag)


#: Tells of a DAG whether its runs may be shown to anyone who asks.
SeesDag = Annotated[Callable[[str], bool], Depends(_dag_reader)]
