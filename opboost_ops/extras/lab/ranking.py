"""Ranking of mechanisms by preserved order of each column, under a party's caps."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from opboost_ops.config.federation import Federation
from opboost_ops.config.loading import POLICY, load_federation, load_party, load_policy
from opboost_ops.config.policy import FeatureRule
from opboost_ops.errors import ConfigError, ContractError
from opboost_ops.extras.lab.advice import ScaleLine, best_by_gain, scales_of, with_best_scales
from opboost_ops.extras.lab.evidence import declaration
from opboost_ops.pipeline.inputs import raw_table
from opboost_ops.pipeline.inputs.own_copy import borrowed
from opboost_ops.pipeline.party.party_sites import party_site_file, site_variable
from opboost_ops.pipeline.stage import Home, PartyContext
from opboost_ops.privacy import planner
from opboost_ops.privacy.planner import Candidate, Caps
from opboost_ops.quality.domain_filling import Filling, filling
from opboost_ops.reports.display.charts import Curve, chart
from opboost_ops.reports.display.html import charts_html
from opboost_ops.tables.local import read_rows

#: Warning on every ranking by the party's own table.
PRIVATE = (
    "This plan was tuned on the party's own table: a choice that depends on private data discloses "
    "something about them, outside any epsilon. Prefer --sample with public rows of the same kind."
)

#: Note on plots of the party's own table.
_UNCHARGED = (
    "Plotted from the party's own table: choices based on it are not charged. This page stays in "
    "the party's home."
)

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Ranking:
    """Mechanisms ranked for each column of a feature holder.

    Attributes:
        federation: Name of the federation.
        party: The feature holder.
        caps: Caps by column, the minimum of the requested ones and those of the party's policy.
            Without requested caps, the guess rates of the declared mechanism are caps.
        candidates: Expected weighted Kendall correlation and mechanism by column, best first.
        public: Whether a public sample was used instead of the party's own table.
        picture: An HTML page.
        fillings: How the rows fill the domain, by column.
        scales: The kinds of cells at the declared loss, by numeric column: with a public sample for
            all columns, otherwise for those with edges.
        chosen: The proposed ``scale`` of each column with new cells.
    """

    federation: str
    party: str
    caps: Mapping[str, Caps]
    candidates: Mapping[str, list[tuple[float, Candidate]]]
    public: bool
    picture: Path
    fillings: Mapping[str, Filling]
    scales: Mapping[str, list[ScaleLine]]
    chosen: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        best = {n: pairs[0][1].curve.mechanism for n, pairs in self.candidates.items()}
        return f"Ranking({self.party}: {', '.join(f'{n} {m}' for n, m in best.items())})"

    @property
    def mechanisms(self) -> dict[str, dict[str, Any]]:
        """The best ``mechanism`` of each column, for the federation file."""
        return {n: self._declared(pairs[0][1]) for n, pairs in self.candidates.items()}

    def document(self) -> dict[str, Any]:
        """Return the ranking as a JSON object."""
        return {
            "federation": self.federation,
            "party": self.party,
            "caps": {
                n: {"guess": c.guess, "of_two": c.of_two, "loss_1": c.step, "loss_whole": c.whole}
                for n, c in self.caps.items()
            },
            "tuned_on": "public sample" if self.public else "private table",
            "features": {
                name: [
                    {
                        "mechanism": self._declared(candidate),
                        "expected_weighted_kendall": round(score, 6),
                        "guess": candidate.guess,
                        "of_two": candidate.of_two,
                        "loss": list(candidate.curve.loss),
                        "certificate": candidate.curve.certificate,
                    }
                    for score, candidate in pairs
                ]
                for name, pairs in self.candidates.items()
            },
            "scales": {n: [vars(line) for line in lines] for n, lines in self.scales.items()},
            "picture": str(self.picture),
        }

    def _declared(self, candidate: Candidate) -> dict[str, Any]:
        return declaration(candidate.mechanism, self.picture.parent)


def rank(
    file: Path,
    party: str | None,
    sample: Path | None,
    limits: Caps,
    out: Path | None,
    progress: Progress,
    rescale: bool = False,
) -> Ranking:
    """Rank mechanisms and parameters by expected order preservation, and plot them.

    If the party's ``policy.yaml`` is known, its caps also apply.

    Args:
        file: ``federation.yaml``.
        party: The feature holder. Default: the only one.
        sample: File of public rows. Default: the party's own table.
        limits: Caps on each column.
        out: Folder of the picture. Default: the party's home.
        progress: Called with the number of finished mechanisms and of all mechanisms.
        rescale: Whether to choose cells as well, by the sample.

    Raises:
        ConfigError: No mechanism complies with the caps, or the party or its table is unknown.
    """
    declared = load_federation(file)
    holder = feature_holder(declared, party)
    rules = rules_of(file, holder)
    best_scales: dict[str, Any] = {}
    if rescale and sample is not None:
        rescaled, best_scales = with_best_scales(declared, holder, sample)
    fillings, values, home = _fillings(file, declared, holder, sample, rules)
    marginals = {name: np.asarray(filling.counts) for name, filling in fillings.items()}
    features, common = declared.parties[holder].features, declared.domain.to_domain()
    domains = {name: features[name].domain_in(common) for name in marginals}
    caps, now = {}, {}
    for name, domain in domains.items():
        rule, mechanism = rules.get(name), features[name].mechanism
        caps[name] = replace(limits, whole=_least(limits.whole, rule.budget if rule else None))
        assert mechanism is not None
        now[name] = planner.Candidate.of(mechanism, domain)
        if limits == Caps():
            caps[name] = replace(caps[name], guess=now[name].guess, of_two=now[name].of_two)
            ends = (now[name].curve.loss[0], now[name].curve.loss[-1])
            if rescale and "inf" not in ends:
                # The proposal must not exceed any loss of the declaration.
                whole = _least(caps[name].whole, float(ends[1]))
                caps[name] = replace(caps[name], step=float(ends[0]), whole=whole)
    candidates = {}
    for domain, cap in dict.fromkeys((domains[name], caps[name]) for name in marginals):
        candidates[domain, cap] = planner.candidates(domain, cap, progress)
        if not candidates[domain, cap]:
            raise ConfigError(
                "No mechanism with an epsilon of 0.001 or more complies with these caps.",
                "Raise a cap.",
            )
    ranked = {
        name: planner.rank(
            planner.with_declared(
                now[name], candidates[domains[name], caps[name]], domains[name], caps[name]
            ),
            domains[name],
            marginal,
        )
        for name, marginal in marginals.items()
    }
    if rescale and sample is not None:
        mechanisms = {n: [c.mechanism for _, c in pairs] for n, pairs in ranked.items()}
        gains = best_by_gain(declared, rescaled, holder, sample, mechanisms)
        best_scales = {n: s for n, s in best_scales.items() if n in gains and gains[n][1]}
        for name, pairs in ranked.items():
            own = gains[name][0] if name in gains else features[name].mechanism
            pairs.sort(key=lambda pair: pair[1].mechanism != own)
    picture = (out or home) / f"plan-{declared.name}-{holder}.html"
    title = f"A plan for {holder} in {declared.name}"
    picture.parent.mkdir(parents=True, exist_ok=True)
    uncharged = "" if sample else f" {_UNCHARGED}"
    picture.write_text(plan_report(title, ranked, uncharged), encoding="utf-8")
    if out is None:
        picture.chmod(0o600)
    # A choice of cells by the party's own table would disclose something outside any epsilon.
    scales = scales_of(declared, holder, values if sample is not None else None)
    return Ranking(
        declared.name,
        holder,
        caps,
        ranked,
        sample is not None,
        picture,
        fillings,
        scales,
        best_scales,
    )


def feature_holder(declared: Federation, party: str | None) -> str:
    """Return the named feature holder, or the only one.

    Raises:
        ConfigError: There is no such feature holder, or none is named and there are several.
    """
    holders = declared.feature_holders
    if not holders:
        raise ConfigError(
            "In horizontal learning nothing is randomised.",
            "docs/horizontal.md lists what is disclosed.",
        )
    if party is None and len(holders) == 1:
        return holders[0]
    if party not in holders:
        raise ConfigError("Name a feature holder with --party.", f"They are {', '.join(holders)}.")
    return party


def rules_of(file: Path, holder: str) -> Mapping[str, FeatureRule]:
    """Return the rules of a party's own policy by feature; empty if its site is unknown.

    Args:
        file: ``federation.yaml``.
        holder: The party.
    """
    site = party_site_file(file, holder)
    if site is None or not (site.parent / POLICY).is_file():
        return {}
    return load_policy(site.parent / POLICY).features


def _least(*caps: float | None) -> float | None:
    return min((cap for cap in caps if cap is not None), default=None)


def own_context(file: Path, declared: Federation, holder: str) -> PartyContext:
    """Return a context at a party's own site, outside of any run.

    Args:
        file: ``federation.yaml``.
        declared: The declared federation.
        holder: The party.

    Raises:
        ConfigError: The party's site is unknown.
    """
    site_file = party_site_file(file, holder)
    if site_file is None:
        raise ConfigError(
            f"The site.yaml of {holder} is unknown.", f"Set {site_variable(holder)} to its path."
        )
    site, policy = load_party(site_file)
    return PartyContext(declared, "", holder, site, policy, Home(site.home / declared.name))


def _fillings(
    file: Path,
    declared: Federation,
    holder: str,
    sample: Path | None,
    rules: Mapping[str, FeatureRule],
) -> tuple[dict[str, Filling], dict[str, np.ndarray], Path]:
    if sample is None:
        context = own_context(file, declared, holder)
        with borrowed(context) as own_copy:
            path, home = own_copy.table_path, context.home.folder
            frame = read_rows(path)
    else:
        frame, path, home = read_rows(sample), sample, Path()
    domain = declared.domain.to_domain()
    fillings: dict[str, Filling] = {}
    numbers: dict[str, np.ndarray] = {}
    for name, feature in declared.parties[holder].features.items():
        if feature.type == "nominal":
            continue
        rule = rules.get(name)
        # A public sample has the declared names, the party's own table those of its policy.
        column = rule.column if rule and rule.column and sample is None else name
        if column not in frame.columns:
            raise ContractError(f"{path.name} has no column {name}.", "Add it to the sample.")
        values = raw_table.numbers(frame.get_column(column), feature)
        fillings[name] = filling(name, values, feature, domain)
        numbers[name] = values
    return fillings, numbers, home


def plan_report(
    title: str, ranked: Mapping[str, Sequence[tuple[float, Candidate]]], more: str = ""
) -> str:
    """Plot two charts per feature: loss curves of the best candidates, and order by loss.

    Args:
        title: Title of the page.
        ranked: Output of `planner.rank`, by feature.
        more: Further text for the page.
    """
    figures: list[tuple[str, Markup]] = []
    for feature, pairs in ranked.items():
        by_mechanism: dict[str, list[tuple[float, Candidate]]] = {}
        for score, candidate in pairs:
            by_mechanism.setdefault(candidate.mechanism.name, []).append((score, candidate))
        best = [scored[0][1].curve for scored in by_mechanism.values()]
        furthest = len(best[0].loss)
        losses = [
            Curve(c.mechanism, [(t, float(loss)) for t, loss in enumerate(c.loss, 1)]) for c in best
        ]
        ticks = [(float(t), str(t)) for t in dict.fromkeys((1, (1 + furthest) // 2, furthest))]
        caption = f"{feature}: loss(t) of the best of each mechanism"
        figures.append((caption, chart(losses, title=caption, x_ticks=ticks, x_label="steps t")))
        orders = [
            Curve(name, sorted((float(c.curve.loss[-1]), score) for score, c in scored))
            for name, scored in by_mechanism.items()
        ]
        ends = sorted(x for curve in orders for x, _ in curve.points)
        marks = [(x, f"{x:.3g}") for x in dict.fromkeys((ends[0], ends[-1]))]
        caption = f"{feature}: expected weighted Kendall of all candidates"
        figures.append((caption, chart(orders, title=caption, x_ticks=marks, x_label="loss(R-L)")))
    lead = "Mechanisms within the caps, ranked by expected order preservation."
    return charts_html(title, lead + more, figures)
