"""A run's result as tables for people."""

from collections.abc import Mapping
from typing import Any

from opboost_ops.cli.output.printing import print_line, print_table
from opboost_ops.reports.run_outcome import outcome_words

#: What people call the rows of `metrics`; each names its mode.
MODES = {
    "centralised": "all raw columns in one place",
    "label_holder_alone": "label holder alone",
    "federated": "federated, mode clear",
    "federated_desensitised": "federated, mode desensitised",
    "federated_routed": "federated, mode routed",
    "federated_local": "federated, mode local",
}


def show(result: Mapping[str, Any]) -> None:
    """Print metrics, bytes and seconds of a run.

    Args:
        result: What `opboost run --json` prints.
    """
    found = {mode: values for mode, values in result["metrics"].items() if values}
    names = sorted({name for values in found.values() for name in values})
    title = f"{result['federation']}, run {result['run']}: held-out rows"
    rows = (
        (text, *(f"{found[mode][name]:.4f}" for name in names))
        for mode, text in MODES.items()
        if mode in found
    )
    print_table(title, ("trained on", *names), rows)
    print_line(outcome_words(result["outcome"]))
    sizes = result["bytes"]
    print(
        f"The feature holders sent {sizes['feature_holders_total']:,} bytes for training "
        f"(entropy of the ranks: {sizes['ranks_entropy']:,.0f}), {sizes['holdout']:,} for the "
        f"held-out rows; alignment took {sizes['align']:,}."
    )
    print(f"Model: {result['model']}")


def show_horizontal(result: Mapping[str, Any]) -> None:
    """Print metrics by party, traffic, seconds, and where the active party's model is.

    Args:
        result: What `opboost run --json` prints of horizontal learning.
    """
    names = sorted({n for found in result["metrics"].values() for n in found["federated_local"]})
    several = any("label_holder_alone" in found for found in result["metrics"].values())
    trained = ("own rows", "all rows") if several else ("all rows",)
    title = f"{result['federation']}, run {result['run']}: each party's held-out rows"
    rows = []
    for party, found in result["metrics"].items():
        # A private run has no model of the own rows alone.
        both = [found[of] for of in ("label_holder_alone", "federated_local") if of in found]
        rows.append((party, *(f"{f[name]:.4f}" for name in names for f in both)))
    print_table(title, ("party", *(f"{name}, {of}" for name in names for of in trained)), rows)
    print(
        f"{result['rows']:,} training rows of {len(result['metrics'])} parties. Each sent "
        f"{result['messages']:,} messages; all of them together {result['bytes']:,} bytes, and "
        f"{result['sums']:,} sums became known. Training took {result['training']:.2f} s."
    )
    if "private" in result:
        private = result["private"]
        print(
            f"Each party's rows were charged (epsilon {private['epsilon']:.4f}, delta "
            f"{private['delta']:g}) for a row added or removed."
        )
    print(f"Model: {result['model']}")
