"""An odd table through every entry point: the same meaning everywhere, or a refusal.

The table is the label holder's and the feature holder's, of training and of new rows. Where `init`
leaves its column out or refuses it, both declare it by a plain table and are given the odd one
afterwards.
"""

import atexit
import copy
import datetime as dt
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl
import pyarrow.feather as feather
import yaml
from starlette.testclient import TestClient

from opboost_ops import api
from opboost_ops.config.feature import Feature, canonical
from opboost_ops.config.loading import load_federation
from opboost_ops.errors import OpBoostError
from opboost_ops.extras.serving.app import make_app
from opboost_ops.pipeline.inputs.raw_table import domain_integers
from opboost_ops.pipeline.runner import local
from opboost_ops.pipeline.runner.fork_server import ForkServer
from opboost_ops.tables.raw_values import declared_series
from tests.zoo.odd import TOLD, Odd

ENTRIES = ("init", "check", "run", "score", "Scorer", "serve", "predict_proba", "ONNX", "simulate")
ROWS, NEW, FIRST = 120, 20, 1000
PARTIES = ("lender", "bank")

#: What stands for a table that is refused, while the federation is declared.
_PLAIN = {
    None: (1.0, 2.0),
    "number": (1.0, 2.0),
    "date": (dt.date(2024, 3, 1), dt.date(2024, 11, 2)),
    "text": ("a", "b"),
}


def everything(odd: Odd, folder: Path) -> dict[str, str]:
    """What became of a table at each entry point.

    Args:
        odd: The table.
        folder: A new one.

    Returns:
        By entry: ``accepted``, ``refused``, or in which way it differs without a word.
    """
    with patch.object(local, "ForkServer", lambda _: nullcontext(_shared_server())):
        return _Through(odd, folder).outcomes


@cache
def _shared_server() -> ForkServer:
    """One for all runs of this process: most of what a short run takes are its imports."""
    server = ForkServer(os.environ)
    atexit.register(server.__exit__, None, None, None)
    return server


class _Through:
    def __init__(self, odd: Odd, folder: Path) -> None:
        self.odd, self.folder, self.outcomes = odd, folder, dict[str, str]()
        self.sites = folder / "c"
        classes = odd.cells if isinstance(odd.meaning, str) else odd.meaning or odd.cells
        self.labels = [int(classes[n % len(classes)] == classes[0]) for n in range(ROWS)]
        self.places = {
            "lender": odd.write(folder / "lender", ROWS, y=self.labels),
            "bank": odd.write(folder / "bank", ROWS),
        }
        # A model learns nothing from a column without values.
        self.accepted = not isinstance(odd.meaning, str) and bool({*odd.meaning} - {None})
        declared = self._init()
        self._simulate()
        if odd.meaning == TOLD:
            return
        if not declared:
            self._init_plain()
        self._declare()
        self._check()
        self._run()

    @contextmanager
    def _entry(self, name: str) -> Iterator[None]:
        """Note what becomes of an entry; a refusal of what has a meaning is a difference."""
        expected = "accepted" if self.accepted else "refused"
        try:
            yield
        except OpBoostError as error:
            self.outcomes.setdefault(name, "refused")
            if self.accepted:
                self.outcomes[name] = f"refuses what it should take: {error}"
            return
        except AssertionError as error:
            self.outcomes[name] = f"differs: {error}"
            return
        except (Exception, pl.exceptions.PanicException) as error:
            self.outcomes[name] = f"fails: {type(error).__name__} {error}"[:300]
            return
        self.outcomes.setdefault(name, "accepted")
        if expected != self.outcomes[name]:
            self.outcomes[name] = "takes what it should refuse"

    def _init(self) -> bool:
        """Whether `init` takes the column as a feature, at both parties."""
        odd, taken = self.odd, []
        try:
            for party, place in self.places.items():
                offered = self._offer(party, place, odd.dialect)
                features = _yaml(self.sites / party / f"{party}-offer.yaml")["features"]
                taken.append("x" in features)
                if not taken[-1]:
                    assert "x" in offered.left_out, "left out without a word"
        except OpBoostError:
            self.outcomes["init"] = "refused"
            if odd.kind is None and (self.accepted or odd.meaning == TOLD):
                self.outcomes["init"] = "refuses what it should take"
            return False
        self.outcomes["init"] = "accepted" if all(taken) else "refused"
        varied = isinstance(odd.meaning, str) or len({*odd.meaning} - {None}) > 1
        if odd.kind is None and varied and all(taken) != self.accepted:
            self.outcomes["init"] = f"takes it as a feature: {taken}"
        return all(taken) and odd.kind is None

    def _offer(self, party: str, place: Path, dialect: Any) -> Any:
        label = "y" if party == "lender" else None
        return api.init(
            self.sites / party, party, place, "id", label=label, name="c", dialect=dialect
        )

    def _init_plain(self) -> None:
        """Declare by a plain table of the same meaning, and put the odd one in its place."""
        odd = self.odd
        values = odd.means(ROWS) if self.accepted and odd.meaning else {}
        if len({*values.values()} - {None}) < 2:
            plain = _PLAIN[odd.kind]
            values = {f"p{n:04d}": plain[n % len(plain)] for n in range(ROWS)}
        self.sites = self.folder / "plain"
        for party in PARTIES:
            frame = pl.DataFrame({"id": [*values], "x": pl.Series([*values.values()])})
            if party == "lender":
                labels = [n % 2 for n in range(frame.height)]
                frame = frame.with_columns(pl.Series("y", labels))
            frame.write_parquet(self.folder / f"{party}.parquet")
            self._offer(party, self.folder / f"{party}.parquet", {})
            self._place(party, "train", self.places[party])
        self.plain = values

    def _place(self, party: str, purpose: str, path: Path) -> None:
        file = self.sites / party / "site.yaml"
        data = _yaml(file)
        place: Any = {"at": str(path), **self.odd.dialect}
        data["tables"]["c"][purpose] = place
        file.write_text(yaml.safe_dump(data, sort_keys=False))

    def _declare(self) -> None:
        values = [*getattr(self, "plain", self.odd.means(ROWS) if self.accepted else {}).values()]
        offer = self.sites / "bank" / "bank-offer.yaml"
        data = _yaml(offer)
        feature = data["features"]["x"]
        there = [value for value in values if value is not None]
        if feature["type"] == "nominal":
            feature["categories"] = [*dict.fromkeys(canonical(str(value)) for value in there)]
            fill: Any = feature["categories"][0]
        elif feature["type"] == "boolean":
            fill = 0
        else:
            numbers = _numbers(there, Feature.model_validate({**feature, "mechanism": None}))
            feature["bounds"] = [float(min(numbers)) - 1, float(max(numbers)) + 1]
            fill = feature["bounds"][0] + 1
        feature["missing"] = {"fill": fill}
        # Further columns of an odd table have the same cells.
        for other in data["features"].values():
            filled = {"bounds", "categories", "missing"} & feature.keys()
            other |= {name: copy.deepcopy(feature[name]) for name in sorted(filled)}
        offer.write_text(yaml.safe_dump(data, sort_keys=False, allow_unicode=True))
        file = self.sites / "federation.yaml"
        api.federate([self.sites / party for party in PARTIES], file)
        data = _yaml(file)
        data["training"].update(trees=5, depth=2, learning_rate=0.3)
        file.write_text(yaml.safe_dump(data, sort_keys=False, allow_unicode=True))
        for party in PARTIES:
            policy = self.sites / party / "policy.yaml"
            rules = _yaml(policy)
            rules.setdefault("alignment", {})["least_common"] = 1
            rules.pop("approve", None)
            policy.write_text(yaml.safe_dump(rules, sort_keys=False, allow_unicode=True))
            digest = api.agree(self.sites / party, file).digest
            api.agree(self.sites / party, file, digest, by="zoo", because="zoo")
        self.federation = load_federation(file)

    def _check(self) -> None:
        with self._entry("check"):
            faults = api.check(self.sites).faults
            if faults:
                raise OpBoostError("; ".join(fault.problem for fault in faults))

    def _run(self) -> None:
        with self._entry("run"):
            trained = api.run(self.sites, because="zoo")
            if not trained.champion:
                # Noise and few rows decide.
                api.models(self.sites).promote(trained.version, "zoo")
            home = self.sites / "bank/home/c" / trained.version
            found = feather.read_table(home / "preprocessed.arrow").drop_columns([" row"])
            ids = feather.read_table(home / "ids.arrow").column("id").to_pylist()
            self._compare(found, ids, self.odd.means(ROWS))
        if self.outcomes["run"] == "accepted" or not self.accepted:
            self._score()

    def _compare(self, found: Any, ids: list[Any], means: dict[Any, Any]) -> None:
        assert set(ids) == set(means), "other people"
        values = pl.Series("x", [means[person] for person in ids])
        bank = self.federation.parties["bank"].features["x"]
        if bank.type != "numeric":
            values = values.cast(pl.String)
        expected = domain_integers(self.federation, "bank", pl.DataFrame({"x": values}))
        mine = found.select(expected.column_names).to_pydict()
        assert mine == expected.to_pydict(), "other values at the feature holder"

    def _score(self) -> None:
        odd = self.odd
        for party in PARTIES:
            self._place(party, "score", odd.write(self.folder / f"{party}-new", NEW, FIRST))
        with self._entry("score"):
            scored = api.score(self.sites, because="zoo")
        if self.outcomes["score"] != "accepted":
            return
        batch = dict(scored.scores.select("id", "score").iter_rows())
        means = odd.means(NEW, FIRST)
        if batch.keys() != means.keys():
            self.outcomes["score"] = "differs: other people"
        features = self.federation.parties["lender"].features
        own = features["x"]
        scorer = api.Scorer(self.sites / "lender", self.sites)
        with self._entry("Scorer"):
            rows = [{"id": p, **dict.fromkeys(features, value)} for p, value in means.items()]
            found = [answer.score for answer in scorer.score_rows(rows)]
            assert found == [batch[person] for person in means], "other scores"
        with self._entry("serve"):
            rows = [{"id": p, **dict.fromkeys(features, _json(v, own))} for p, v in means.items()]
            headers = {"Authorization": "Bearer zoo"}
            with TestClient(make_app(scorer, "zoo")) as client:
                said = client.post("/score", content=json.dumps({"rows": rows}), headers=headers)
            assert said.status_code == 200, said.text
            scores = [answer["score"] for answer in said.json()["scores"]]
            assert scores == [batch[person] for person in means], "other scores"
        values = pl.Series([*means.values()])
        frame = pl.DataFrame({f"{p}.{name}": values for p in PARTIES for name in features})
        model = api.models(self.sites).model()
        with self._entry("predict_proba"):
            likely = model.predict_proba(frame)[:, 1]
        with self._entry("ONNX"):
            assert np.allclose(self._by_onnx(values), likely, rtol=0, atol=1e-6), "other scores"

    def _by_onnx(self, values: pl.Series) -> np.ndarray:
        import onnxruntime

        path = self.folder / "model.onnx"
        api.models(self.sites).export(path, form="onnx")
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        feed = {}
        for put in session.get_inputs():
            party, _, feature = put.name.partition(".")
            declared = self.federation.parties[party].features[feature]
            if put.type == "tensor(string)":
                texts = ["" if value is None else str(value) for value in values]
                feed[put.name] = np.array(texts, dtype=object)
            else:
                feed[put.name] = _numbers(values.to_list(), declared)
        return np.asarray(session.run(["score"], feed)[0])

    def _simulate(self) -> None:
        odd = self.odd
        try:
            path = self.places["lender"]
            found = api.simulate(path, "y", {"bank": ["x"]}, dialect=odd.dialect)
        except OpBoostError:
            self.outcomes["simulate"] = "refused"
            if self.accepted and odd.kind is None and len({*odd.meaning} - {None}) > 1:
                self.outcomes["simulate"] = "refuses what it should take"
            return
        self.outcomes["simulate"] = "accepted"
        if odd.kind is None and not self.accepted and odd.by == "reader":
            self.outcomes["simulate"] = "takes what it should refuse"
        elif self.accepted and found.centralised.value < 1:
            self.outcomes["simulate"] = "differs: other values"


def _yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def _numbers(values: list[Any], feature: Feature) -> np.ndarray:
    """Values in the feature's unit, NaN where missing."""
    series = pl.Series("x", values)
    return declared_series(series, feature).cast(pl.Float64).fill_null(float("nan")).to_numpy()


def _json(value: Any, feature: Feature) -> Any:
    if value is None or feature.type != "numeric":
        return value
    if isinstance(value, dt.date):
        return value.isoformat()
    return float(_numbers([value], feature)[0])
