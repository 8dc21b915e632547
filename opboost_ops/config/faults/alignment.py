"""What a federation file may not ask of the way in which common people are found."""

from collections.abc import Iterator

from opboost_ops.config.federation import Federation
from opboost_ops.errors import Fault


def alignment_faults(federation: Federation) -> Iterator[Fault]:
    """Missing encryption keys, and choices of rows that do not fit the rest of the file."""
    # Of one feature holder, each policy's require_encryption decides.
    for name in federation.feature_holders if federation.has_shares else ():
        if federation.parties[name].encryption_key is None:
            yield Fault(
                f"parties.{name}.encryption_key",
                "is required: feature holders share keys with one another, so that a row opens "
                "only where all of them have the person",
                "make one with `opboost keys renew SITE encryption`",
            )
    training = federation.training
    if federation.keeps_all and (training.trainer == "dpboost" or federation.denoising != "none"):
        yield Fault(
            "alignment.overlap",
            "is `left`, which leaves missing values; DPBoost and denoise take none",
            "declare `common`, or train with LightGBM or XGBoost and `denoise: none`",
        )
