"""What a release tells of its columns: which of them say most of the label behind the noise.

Everything here is made of what the label holder has received and of its own table: it costs nobody
anything. Rows are sampled as `denoise: joint` samples them.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from opboost_ops.boosting.denoise.joint import imputed
from opboost_ops.boosting.denoise.rows import drawable
from opboost_ops.boosting.frame import Frame, Parameters
from opboost_ops.mechanisms.channel import Channel
from opboost_ops.privacy.division import Evidence, sampled

#: Draws are repeatable: the same release makes the same proposal.
_SEED = hashlib.sha256(b"evidence of a release").digest()

#: Drawn rows by which what columns say together is compared.
_COMPARED = 10_000


def evidence_of(
    frame: Frame,
    label: np.ndarray,
    parameters: Parameters,
    channels: Mapping[str, Channel],
    names: Sequence[str],
) -> Evidence:
    """Evidence of a release, for `privacy.division`.

    Args:
        frame: Training rows.
        label: Numbers or class indices, shape (n,).
        parameters: What is learnt.
        channels: What released others' columns, by name; all of them can be sampled, see
            `rows.drawable`.
        names: Of those columns among which a loss is divided.
    """
    drawn = imputed(frame, label, parameters, drawable(frame, channels), _SEED)
    codes = np.column_stack([_values(drawn.frame, name, channels[name]) for name in names])
    size = len(channels[names[0]].inputs)
    classes = 0 if parameters.task == "regression" else parameters.classes
    found = sampled(names, codes, drawn.label, classes, size)
    some = np.unique(np.linspace(0, len(codes) - 1, _COMPARED).astype(np.int64))
    return replace(found, codes=codes[some])


def _values(frame: Frame, name: str, channel: Channel) -> np.ndarray:
    """A column's drawn values from 0; a channel may have fewer outputs than there are values."""
    ranks = frame.matrix[:, frame.names.index(name)].astype(np.int64)
    return np.asarray((channel.outputs - channel.inputs[0])[ranks - 1])
