"""Many features with one and the same fault are one fault."""

from collections.abc import Iterable

from opboost_ops.errors import Fault

#: From so many on.
_FEWEST = 4

#: What `opboost bounds` fills in.
_FILLED = ("bounds", "categories", "missing.fill")

_INSIDE = ".features."


def grouped(faults: Iterable[Fault]) -> list[Fault]:
    """The faults in their order, those that differ in nothing but the feature in one.

    Args:
        faults: All of a file.

        >>> found = [Fault(f"parties.b.features.x{i}.bounds", "is required") for i in range(9)]
        >>> [fault.where for fault in grouped(found)]
        ['parties.b.features.*.bounds']
    """
    groups: dict[tuple[str, str, str, str], list[tuple[str, Fault]]] = {}
    for fault in faults:
        before, inside, after = fault.where.partition(_INSIDE)
        feature, _, key = after.partition(".")
        alone = not inside or not key
        group = (fault.where if alone else before, key, fault.problem, fault.suggestion)
        groups.setdefault(group, []).append((feature, fault))
    found: list[Fault] = []
    for (before, key, problem, suggestion), members in groups.items():
        if len(members) < _FEWEST:
            found += [fault for _, fault in members]
            continue
        remedy = [suggestion] if suggestion else []
        if key in _FILLED:
            remedy.append("fill in bounds.csv, which `opboost init` writes, then `opboost bounds`")
        names = ", ".join(feature for feature, _ in members)
        found.append(
            Fault(
                f"{before}{_INSIDE}*.{key}",
                f"{problem}; so it is with {len(members)} features: {names}",
                "; ".join(remedy),
            )
        )
    return found
