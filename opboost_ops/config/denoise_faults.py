"""What a federation file may not ask of denoising."""

from collections.abc import Iterator

from opboost_ops.config.federation import Federation
from opboost_ops.errors import Fault


def denoise_faults(federation: Federation) -> Iterator[Fault]:
    """Where ``training.denoise``, or its older name, does not fit the rest of the file."""
    training = federation.training
    kind = training.denoise or ("redraw" if training.redraw else "none")
    place = "training.redraw" if training.denoise is None else "training.denoise"
    if training.redraw and kind != "redraw":
        yield Fault(place, f"is {kind}, and redraw: true stands beside it", "leave redraw out")
    if kind != "none" and training.trainer == "dpboost":
        yield Fault(
            place,
            "makes features of the labels, which DPBoost's noise does not cover",
            "leave it out",
        )
    if kind in ("none", "auto"):
        return
    if training.engine == "dask":
        yield Fault(
            place,
            "looks at all rows at once, and engine dask never does",
            "leave one of them out",
        )
    if kind == "joint" and training.trainer == "xgboost":
        yield Fault(place, "is joint, which trains LightGBM alone", "declare denoise: redraw")
    if federation.scoring.mode == "desensitised":
        yield Fault(
            place,
            "makes a model for clear rows, and scoring is desensitised",
            "declare scoring: {mode: routed} or {mode: local}, or leave "
            f"{place.removeprefix('training.')} out",
        )
