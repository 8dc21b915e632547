"""The report's section on costs."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from opboost_ops.lab import pictures
from opboost_ops.lab.cost import AFTER

_NAMES = {
    "global_map": "Global-map",
    "adj_map": "Adj-map",
    "local_map": "Local-map",
    "bucket_response": "Bucketed response",
    "geometric": "Clamped geometric",
    "grr": "Generalised response",
    "piecewise": "Piecewise",
}
_SAMPLERS = {"exponential": "exponential", "bounded_laplace": "bounded Laplace", "": "-"}
#: Stages by what they are for; the others are training itself.
_PARTS: Mapping[str, tuple[str, ...]] = {
    "tables and IDs": ("open_run", "check_table", "check_drift", "digest_ids", "align"),
    "protection": ("preprocess", "desensitize", "rank", "check_release"),
    "exchange": ("publish", "accept", "assemble", "check_frame", "request_splits"),
    "training": ("train",),
    "model on values": ("answer_splits", "materialise", "check_model"),
    "metrics, card": AFTER,
}


def section(found: Mapping[str, Any], folder: Path) -> str:
    """The section, and its pictures.

    Args:
        found: As `cost.experiment` gives it.
        folder: Where the pictures go.

    Returns:
        Markdown.
    """
    _picture(found, folder / "evaluation-cost.svg")
    lower, upper = found["domain"]
    how, paper = found["run"], found["paper"]
    low, high = paper["times_order_preserving_encryption"]
    seeds = sorted({line["seeds"] for line in found["runs"]})
    times = ", ".join(
        f"{_NAMES[line['method']]} {_times(line['seconds'])}" for line in found["naming"]
    )
    all_same = all(line["same_counts"] for line in found["naming"])
    return "\n".join(
        [
            "## Costs",
            "",
            f"Made by `{found['command']}`, seeds a table: {', '.join(map(str, seeds))}, on two "
            "shared cores that were busy with other work. Seconds are therefore the processor's, "
            "summed over threads, of repeats the least; what is compared was timed in one run.",
            "",
            "### Desensitising (the paper's Table 4)",
            "",
            f"{found['values']:,} values on [{lower}, {upper}], epsilon {found['epsilon']:g}, "
            f"theta {found['theta']}, from person keys to outputs. pyope "
            f"encrypted {found['pyope_values']} of the same values, which is extrapolated. The "
            f"paper reports {low} to {high} times order-preserving encryption; its seconds are not "
            "known here.",
            "",
            *_mechanisms(found["mechanisms"]),
            "",
            "The exponential mechanism and the bounded discrete Laplace law are one distribution: "
            f"under both names the integer counts are {'the same' if all_same else 'NOT the same'}"
            f" for all three mechanisms, and so is the code that runs. Seconds: {times}.",
            "",
            "### Bytes that a feature holder sends",
            "",
            "For training it sends ranks and split values, with manifests and signatures, "
            "encrypted. Beside it the entropy of the ranks, which is what coding each cell by "
            f"itself comes to, and the {paper['bytes_a_cell']} bytes that the paper spends on a "
            "cell. ID digests, positions and held-out rows come on top.",
            "",
            *_bytes(found["runs"], paper["bytes_a_cell"]),
            "",
            "### Whole runs",
            "",
            f"Epsilon {how['epsilon']:g} on {how['domain']}, {how['trees']} trees of depth "
            f"{how['depth']}, a process a party, beside LightGBM and XGBoost alone on everybody's "
            "raw training rows. `to the model` is all stages until there is a model on domain "
            "values, exchange and accounts included; `all` adds metrics with a second model to "
            "compare with, importance of features and the card. Where parties work side by side, "
            "the slowest counts. Data quality is apart. By the wall's clock a run took what the "
            "load made of it: so many processes wanted one of the two cores. The paper's seconds "
            "for these tables are not known here; FederBoost's paper gives "
            f"{paper['federboost_seconds_8192_x_11']} s for 8,192 x 11 on other machines.",
            "",
            *_runs(found["runs"]),
            "",
            "![Seconds of a run by part, as multiples of LightGBM alone](figures/"
            "evaluation-cost.svg)",
            "",
            "Small tables cost what does not depend on rows: signatures, and ledger and audit log "
            "forced to the disk at every step.",
        ]
    )


def _times(seconds: Mapping[str, float]) -> str:
    return " and ".join(f"{value:.4f} ({_SAMPLERS[name]})" for name, value in seconds.items())


def _mechanisms(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    shown = [
        "| mechanism | the paper's name for its law | ns a cell | times pyope |",
        "| --- | --- | --- | --- |",
    ]
    for line in lines:
        shown.append(
            f"| {_NAMES[line['method']]} | {_SAMPLERS[line['sampler']]} | "
            f"{line['nanoseconds_a_cell']:.0f} ± {line['nanoseconds_a_cell_sd']:.0f} | "
            f"{line['times_pyope']:,.0f} ± {line['times_pyope_sd']:,.0f} |"
        )
    return shown


def _bytes(lines: Sequence[Mapping[str, Any]], paper: int) -> list[str]:
    shown = [
        f"| dataset | cells | sent | a cell | entropy | {paper} bytes a cell | ID digests and "
        "positions | held-out rows |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for line in lines:
        cells = line["cells"]
        shown.append(
            f"| {line['dataset']} | {cells:,.0f} | {line['release_bytes']:,.0f} | "
            f"{line['release_bytes'] / cells:.2f} | {line['entropy_bytes']:,.0f} | "
            f"{paper * cells:,.0f} | {line['digest_bytes']:,.0f} | {line['holdout_bytes']:,.0f} |"
        )
    return shown


def _runs(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    shown = [
        "| dataset | training rows | to the model, s | all, s | LightGBM, s | XGBoost, s | "
        "to the model / LightGBM | / XGBoost | all, wall, s | data quality, wall, s | load |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for line in lines:
        seconds = " | ".join(
            f"{line[f'{name}_seconds']:.2f}" for name in ("model", "all", "lightgbm", "xgboost")
        )
        ratios = " | ".join(
            f"{line[f'model_to_{name}']:.1f} ± {line[f'model_to_{name}_sd']:.1f}"
            for name in ("lightgbm", "xgboost")
        )
        wall = (
            f"{line['wall_seconds']:.1f} | {line['quality_wall_seconds']:.1f} | {line['load']:.0f}"
        )
        shown.append(f"| {line['dataset']} | {line['rows']:,.0f} | {seconds} | {ratios} | {wall} |")
    return shown


def _picture(found: Mapping[str, Any], path: Path) -> None:
    figure, (plot,) = pictures.canvas(width=6.4)
    lines = found["runs"]
    places = list(range(len(lines)))
    known = {stage for stages in _PARTS.values() for stage in stages}
    below = [0.0] * len(lines)
    for i, (part, stages) in enumerate(_PARTS.items()):
        more = (
            {s for line in lines for s in stage_names(line)} - known if part == "exchange" else ()
        )
        shares = [
            sum(line.get(f"stage_{stage}") or 0.0 for stage in (*stages, *more))
            / line["lightgbm_seconds"]
            for line in lines
        ]
        colour = pictures.COLOURS[i % len(pictures.COLOURS)]
        plot.barh(places, shares, left=below, height=0.6, color=colour, label=part)
        below = [a + b for a, b in zip(below, shares, strict=True)]
    plot.set_yticks(places, [line["dataset"] for line in lines])
    plot.axvline(1.0, linestyle=":", color="#767676")
    figure.legend(loc="outside right center", frameon=False, labelcolor="#767676", fontsize=8)
    title, x = "A whole run by part", "processor seconds, LightGBM alone is 1"
    pictures.name_axes(plot, title, x, "")
    pictures.save(figure, path)


def stage_names(line: Mapping[str, Any]) -> Iterable[str]:
    """The stages whose seconds a line of ``runs`` holds."""
    return (n[len("stage_") :] for n in line if n.startswith("stage_") and not n.endswith("_sd"))
