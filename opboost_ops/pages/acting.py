"""Where a person acts: Airflow's own trigger forms, which ask for its permission, and what to type.

Airflow 3.3 has no address that fills a form in, so what to choose stands beside the button.
"""

from collections.abc import Collection

from opboost_ops.config.acts import Act
from opboost_ops.pages.blocks import Links, Note


def on_version(
    party: str,
    federation: str,
    version: str,
    *,
    champion: bool,
    former: bool,
    allowed: Collection[Act],
) -> Note:
    """How to put a version into use, and how to score with it.

    Args:
        party: Who keeps it.
        federation: Whose model.
        version: Its name.
        champion: Whether it is in use.
        former: Whether it was before.
        allowed: What the party lets be asked for through Airflow.
    """
    act: Act = "roll_back" if former else "promote"
    lines = []
    links = [("Score with this version", f"/dags/{federation}_score")]
    if champion:
        lines.append("It is the champion: a scoring run takes it where no version is named.")
    elif act in allowed:
        links.insert(0, ("Put it into use", f"/dags/{federation}_admin"))
        lines.append(
            f"To put it into use: Trigger, party {party}, what {act}, version {version}, and why."
        )
    else:
        command = "rollback" if former else "promote"
        lines.append(f"To put it into use, at home: `opboost models {command} SITE {version}`.")
    if not champion:
        lines.append(f"To score with it: Trigger, version {version}.")
    text = "What can be done with this version"
    return Note("", text, "Each asks for Airflow's permission.", tuple(lines), tuple(links))


def on_federation(federation: str) -> Links:
    """How a party stops taking part.

    Args:
        federation: In which federation.
    """
    return Links((("Promote, roll back, stop taking part", f"/dags/{federation}_admin"),))
