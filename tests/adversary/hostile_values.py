"""Hostile values at every field of every message."""

import base64
from collections.abc import Callable, Mapping
from typing import Any

from opboost_ops.domain import Domain
from opboost_ops.mechanisms import GlobalMap
from opboost_ops.privacy.loss import loss_curve

#: Kinds with points or entries.
LISTS = ("psi_query", "psi_answer", "shares", "ranks", "routes", "values")
OTHER, DIGEST, HUGE = "f" * 16, "a" * 64, 10**30
SCRIPT = "<script>alert(1)</script>"

CURVE = loss_curve(GlobalMap(epsilon=0.1), Domain(1, 10)).model_dump(mode="json")

#: Changes a value in a document or manifest; what it returns is put there.
Change = Callable[[Any], Any]


def to(value: Any) -> Change:
    """Another value, whatever was there."""
    return lambda _: value


def to_all(value: Any) -> Change:
    """Another value under every name."""
    return lambda names: dict.fromkeys(names, value)


def each(change: Change) -> Change:
    """A change of what is under every name."""
    return lambda all_of: {name: change(one) for name, one in all_of.items()}


#: By field of the manifest, hostile values.
MANIFESTS: Mapping[str, tuple[Change, ...]] = {
    "version": (to(0), to(2), to(-1), to(HUGE)),
    "protocol": (lambda v: v + 1, lambda v: v - 1, to(HUGE), to(float("nan"))),
    "federation": (to("other"), to("../credit_scoring"), to("")),
    "run": (to(OTHER), to("../../escape"), to("")),
    "kind": (lambda kind: "psi_query" if kind == "ranks" else "ranks", to("secrets"), to("")),
    "party": (lambda party: "bank" if party == "credit" else "credit", to("shop"), to(SCRIPT)),
    "about": (to("shop"), to("nobody"), to("")),
    "round": (to("round-1"), to("")),
    "answers": (to(DIGEST), lambda v: None if v else DIGEST, to("")),
    "columns": (to(["income", "income"]), to(["secret_salary"]), to([SCRIPT]), to(["\x1b[2K"])),
    "rows": (lambda n: -n - 1, to(HUGE), to(float("nan")), to("1")),
    "losses": (
        lambda losses: {} if losses else {"income": CURVE},
        lambda losses: {**losses, "secret_salary": CURVE},
        to({"income": {**CURVE, "loss": [float("nan")] * 9}}),
    ),
    "releases": (
        lambda it: {} if it else {"income": OTHER},
        to({"secret_salary": OTHER}),
        to({"income": SCRIPT}),
    ),
    "files": (
        to({}),
        each(lambda file: {**file, "size": HUGE}),
        each(lambda file: {**file, "sha256": DIGEST}),
        lambda files: {**files, "../../escape": {"sha256": DIGEST, "size": 0}},
    ),
    "encrypted_to": (to(OTHER), lambda key: None if key else OTHER),
    "experiment": (lambda it: not it, to("yes")),
    "software": (to("99.0.0"), to("0.1.0"), to(""), to(SCRIPT)),
    "head": (
        lambda head: {**head, "number": HUGE},
        lambda head: {**head, "head": "b" * 64},
        lambda head: {**head, "number": 10**6},
        lambda head: {**head, "signature": head["signature"][::-1]},
        to(None),
    ),
    "seen": (
        lambda seen: {"bank": {**a_checkpoint(seen or {}), "number": 10**6}},
        lambda seen: {"credit": {**a_checkpoint(seen or {}), "number": 10**6}},
        to({"nobody": {}}),
    ),
}


def a_checkpoint(seen: Mapping[str, Any]) -> dict[str, Any]:
    """Some checkpoint in its form, signed by nobody unless one is there."""
    unsigned = {"number": 1, "head": "c" * 64, "signature": "0" * 128}
    return dict(next(iter(seen.values()), unsigned))


#: By field of a layout, hostile values.
LAYOUTS: Mapping[str, tuple[Change, ...]] = {
    "nonce": (to("0" * 64), to("0" * 63), to(""), to(7)),
    "width": (lambda n: n + 1, to(0), to(-1), to(HUGE), to(float("nan")), to(True)),
    "keys": (lambda n: [*n, 1], lambda n: [n[0] + 1], to([-1]), to([HUGE]), to([]), to([True])),
    "numbers": (to([256]), to([-1]), to([]), to([HUGE]), to([float("nan")]), to("x")),
}
_RANKS: tuple[Change, ...] = (
    lambda asked: {**asked, "secret_salary": [1]},
    lambda asked: {**asked, SCRIPT: [1]},
    each(lambda some: [*some, *some]),
    to_all([0]),
    to_all([-1]),
    to_all([HUGE]),
    to_all([float("nan")]),
    to_all([True]),
    to_all(["1"]),
    to_all(1),
    to_all(None),
    to_all(list(range(1, 400))),
    to([]),
    to(None),
)
#: Hostile values at each field of a document, by kind.
DOCUMENTS: Mapping[str, Mapping[str, tuple[Change, ...]]] = {
    "plan": {
        "federation": (
            to({}),
            lambda f: {**f, "name": "other"},
            lambda f: {**f, "domain": {"lower": 1, "upper": HUGE}},
            lambda f: {**f, "domain": {"lower": 1, "upper": float("nan")}},
            lambda f: {**f, "parties": {**f["parties"], SCRIPT: f["parties"]["bank"]}},
            lambda f: {**f, "training": {**f["training"], "weight_column": "secret_salary"}},
        ),
        "purpose": (to("score"), to("spy"), to(None)),
        "model": (to("champion"), to("../../x"), to(OTHER), to(HUGE)),
        "agreement": (to(DIGEST), to(""), to(None)),
        "protocol": (lambda n: n - 1, lambda n: n + 1, to(True), to(float("nan"))),
        "form": (to({"trees": HUGE}), to({SCRIPT: SCRIPT}), to([]), to(None)),
        "reference": (to(OTHER), to("../../x"), to(7)),
        "epoch": (to("2020-01"), to("2999-12"), to("now"), to(None)),
        "day": (to("2020-01-01"), to("2999-01-01"), to("today"), to(HUGE)),
    },
    "split_request": {
        "splits": (
            *_RANKS,
            to_all([1.0]),
            each(lambda some: [*some, 99]),
        ),
        "thresholds": _RANKS,
    },
    "split_values": {
        "splits": (
            each(to_all(float("nan"))),
            each(to_all(HUGE)),
            each(to_all(-HUGE)),
            each(to_all("1")),
            each(lambda values: dict(zip(values, reversed(values.values()), strict=True))),
            each(lambda values: {"1000000": 1.5, **values}),
            to({}),
            to(None),
        ),
        "ranks": (to({"income": [HUGE]}), to({SCRIPT: [1]}), to([]), to(None)),
    },
    "route_request": {"thresholds": _RANKS},
}


def lists(width: int, kind: str) -> tuple[Change, ...]:
    """Hostile contents of a list of entries.

    Args:
        width: Bytes of one.
        kind: Of the message.
    """
    # One person's entry is spoiled, or two people's answers are exchanged: no run fails by that.
    one: Change = lambda raw: raw[:-1] + bytes([raw[-1] ^ 1])  # noqa: E731
    if kind == "psi_answer":
        one = lambda raw: raw[width : 2 * width] + raw[:width] + raw[2 * width :]  # noqa: E731
    return (
        one,
        to(b""),
        lambda raw: raw[:-1],
        lambda raw: raw[:-width],
        lambda raw: raw + raw[-width:],
        lambda raw: raw[width:] + raw[:width],
        lambda raw: raw[:width] * (len(raw) // width),
        lambda raw: bytes(len(raw)),
        lambda raw: b"\xff" * len(raw),
    )


def encoded(raw: bytes) -> str:
    """Bytes in base64."""
    return base64.b64encode(raw).decode()


def bytes_of(change: Callable[[bytes], bytes]) -> Change:
    """Other bytes in a text of base64."""
    return lambda text: encoded(change(base64.b64decode(text)))


NO_TEXTS: tuple[Change, ...] = (to(""), to(7), to(None), to("?"), to([]), to(SCRIPT))
NO_BYTES: tuple[Change, ...] = (
    bytes_of(lambda raw: raw[:-1]),
    bytes_of(lambda raw: raw + raw),
    bytes_of(lambda raw: bytes(len(raw))),
    bytes_of(lambda raw: b"\xff" * len(raw)),
    bytes_of(lambda raw: raw[:-1] + bytes([raw[-1] ^ 1])),
)
#: The active party of the sessions that are attacked.
ACTIVE = "bank_a"
#: Hostile values at each field of a document of a round, by kind; of a vector, other bytes.
ROUND_DOCUMENTS: Mapping[str, Mapping[str, tuple[Change, ...]]] = {
    "round_key": {
        "key": (*NO_TEXTS, *NO_BYTES),
    },
    "masked": {
        "vector": (
            lambda raw: raw[:-1],
            lambda raw: raw + raw,
            to(b""),
            lambda raw: bytes(len(raw)),
            lambda raw: b"\xff" * len(raw),
        )
    },
    "decision": {
        "sealed": (*NO_TEXTS, *NO_BYTES),
        "keys": (
            to({}),
            to(None),
            to([]),
            lambda keys: dict.fromkeys(keys, keys["bank_b"]),
            to_all(SCRIPT),
        ),
        "closed": (to(SCRIPT), to(None), to(HUGE), to({"a": [1]})),
    },
}
