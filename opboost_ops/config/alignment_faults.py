"""What a federation file may not ask of the way in which common people are found."""

from collections.abc import Iterator

from opboost_ops.config.federation import Federation
from opboost_ops.config.training import HoldoutColumn
from opboost_ops.errors import Fault


def new_alignment_faults(federation: Federation) -> Iterator[Fault]:
    """What a file of an earlier release lacks; stored models of such a release are still read."""
    if federation.learning != "vertical":
        return
    if former := federation.alignment.former:
        yield Fault(
            "alignment",
            f"is `{former}`, which was removed: the sealed release is the only alignment",
            "leave it out, write `seal_everybody: true` and max_new_queries under alignment in "
            "each feature holder's policy.yaml, and let all parties agree again; models, ledgers "
            "and keys stay",
        )
    if renamed := federation.alignment.renamed:
        yield Fault(
            "alignment.members",
            f"is `{renamed}`; this entry is now called overlap",
            f"write `alignment: {{overlap: {federation.alignment.overlap}}}`; `left` needs a new "
            "agreement, and models stay in use",
        )
    holders = federation.feature_holders
    # Of one feature holder, each policy's require_encryption decides.
    for name in holders if federation.has_shares else ():
        if federation.parties[name].encryption_key is None:
            yield Fault(
                f"parties.{name}.encryption_key",
                "is required: feature holders share keys with one another, so that a row opens "
                "only where all of them have the person",
                "make one with `opboost keys renew SITE encryption`",
            )


def alignment_faults(federation: Federation) -> Iterator[Fault]:
    """Where the choice of held-out rows, or of rows at all, does not fit the rest of the file."""
    rule, training = federation.training.holdout, federation.training
    if federation.keeps_all and (training.trainer == "dpboost" or federation.denoising != "none"):
        yield Fault(
            "alignment.overlap",
            "is `left`, which leaves missing values; DPBoost and denoise take none",
            "declare `common`, or train with LightGBM or XGBoost and `denoise: none`",
        )
    if isinstance(rule, HoldoutColumn) and "routed" in federation.scoring.modes:
        yield Fault(
            "training.holdout",
            "is a column, and with routed scoring feature holders must know which rows are held "
            "out",
            "declare a share, or leave routed scoring out",
        )
