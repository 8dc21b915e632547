"""Whether a manifest states the columns and the losses that its plan declares."""

from opboost_ops.config.columns import columns_of
from opboost_ops.config.federation import Federation
from opboost_ops.exchange.manifest import Kind, Manifest
from opboost_ops.exchange.order import Memory
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.privacy.loss import column_losses

#: Kinds that release randomised cells, and so state what these cost.
_RELEASES: frozenset[Kind] = frozenset({"ranks", "values"})


def require_columns(
    memory: Memory, manifest: Manifest, federation: Federation | None, what: str
) -> None:
    """Refuse columns that are not the declared ones, or not the ones asked for.

    Args:
        memory: Of the reader; the artifact's order was checked with it.
        manifest: Of the artifact.
        federation: The accepted plan's; None for the plan itself.
        what: Name of the place, for the error.

    Raises:
        Rejected: They are others.
    """
    kind, found = manifest.kind, manifest.columns
    expected: tuple[str, ...] = ()
    if federation and kind in ("ranks", "values", "split_request", "route_request"):
        expected = tuple(c.name for c in columns_of(federation, manifest.about))
    elif kind in ("split_values", "routes"):
        asked = "split_request" if kind == "split_values" else "route_request"
        expected = memory.accepted[f"{asked}/{manifest.about}"].columns
    some = kind in ("split_request", "route_request") and len(set(found)) == len(found)
    if not (set(found) <= set(expected) if some else found == expected):
        raise Rejected("unknown_column", f"{what}: its columns are not the declared ones.")


def require_guarantee(
    manifest: Manifest, federation: Federation, experiment: bool, what: str
) -> None:
    """Refuse a loss that is not the mechanism's, by this party's own computation.

    Args:
        manifest: Of another party's artifact.
        federation: The accepted plan's.
        experiment: Whether the plan says that the run guarantees nothing.
        what: Name of the place, for the error.

    Raises:
        Rejected: It states another loss, or another kind of run.
    """
    expected = {}
    if manifest.kind in _RELEASES:
        expected = column_losses(columns_of(federation, manifest.about))
    if dict(manifest.losses) != expected:
        raise Rejected(
            "wrong_guarantee",
            f"{what}: it states other losses than the declared mechanisms have.",
        )
    if manifest.experiment != experiment:
        says = "to be an experiment" if manifest.experiment else "a guarantee"
        raise Rejected("wrong_guarantee", f"{what}: it says {says}, but the run's plan does not.")
