"""What a federation file may not ask of denoising."""

from collections.abc import Iterator

from opboost_ops.config.federation import Federation
from opboost_ops.config.parameters import MONOTONE
from opboost_ops.errors import Fault

#: Most values of the domain of a stack: a version holds every one's share in every latent class.
STACK_VALUES = 128


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
    if kind == "stack":
        yield from _stack_faults(federation)
    elif federation.scoring.mode == "desensitised":
        yield Fault(
            place,
            "makes a model for clear rows, and scoring is desensitised",
            "declare scoring: {mode: routed} or {mode: local}, or leave "
            f"{place.removeprefix('training.')} out",
        )


def _stack_faults(federation: Federation) -> Iterator[Fault]:
    """A stack says what is behind randomised rows, and is no sum of trees."""
    place, training, scoring = "training.denoise", federation.training, federation.scoring
    if training.trainer == "xgboost":
        yield Fault(place, "is stack, which trains LightGBM alone", "leave one of them out")
    if clear := [mode for mode in scoring.modes if mode != "desensitised"]:
        yield Fault(
            place,
            f"is stack, which knows randomised rows alone, and scoring names {', '.join(clear)}",
            "declare scoring: {mode: desensitised} without these, or denoise: auto",
        )
    if scoring.reasons is not None:
        yield Fault(
            "scoring.reasons",
            "names features by their parts of one model, and a stack is a mean of several",
            "leave it out, or denoise: stack",
        )
    if training.objective not in (None, "binary", "multiclass", "l2"):
        yield Fault(
            "training.objective",
            "is not what a stack's weights go by: squared error, or log loss of classes",
            "leave it out, or denoise: stack",
        )
    if training.parameters.get(MONOTONE):
        yield Fault(
            f"training.parameters.{MONOTONE}",
            "a stack cannot hold: some of its parts look at what is likely behind a row",
            "leave it out, or denoise: stack",
        )
    if federation.domain.to_domain().size > STACK_VALUES:
        yield Fault(
            "domain",
            f"has more than {STACK_VALUES} values, and a stack keeps the share of each in every "
            "latent class",
            "declare a smaller domain, or leave denoise: stack out",
        )
