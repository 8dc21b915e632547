"""What a federation file may not ask of denoising."""

from collections.abc import Iterator

from opboost_ops.config.federation import Federation
from opboost_ops.errors import Fault


def denoise_faults(federation: Federation) -> Iterator[Fault]:
    """Where ``training.denoise`` does not fit the rest of the file."""
    training, place = federation.training, "training.denoise"
    if training.denoise in (None, "none"):
        return
    if training.trainer == "dpboost":
        yield Fault(
            place,
            "makes features of the labels, which DPBoost's noise does not cover",
            "leave it out",
        )
    if training.denoise == "auto":
        return
    if training.engine == "dask":
        yield Fault(
            place,
            "looks at all rows at once, and engine dask never does",
            "leave one of them out",
        )
    if training.trainer == "xgboost":
        yield Fault(place, "is joint, which trains LightGBM alone", "leave one of them out")
    if federation.scoring.mode == "desensitised":
        yield Fault(
            place,
            "makes a model for clear rows, and scoring is desensitised",
            "declare scoring: {mode: routed} or {mode: local}, or leave denoise out",
        )
