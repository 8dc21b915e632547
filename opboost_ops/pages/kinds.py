"""What pages call the kinds of artifact.

>>> kind_words("psi_query"), kind_words("split_request")
('blinded IDs', 'split request')
"""

from collections.abc import Mapping

#: Where the kind's own name says too little.
_WORDS: Mapping[str, str] = {
    "psi_query": "blinded IDs",
    "psi_answer": "answer to blinded IDs",
    "stopped": "stopped taking part",
    "resumed": "takes part again",
}


def kind_words(kind: str) -> str:
    """A kind of artifact, or of ledger line, in words.

    Args:
        kind: Its name.
    """
    return _WORDS.get(kind, kind.replace("_", " "))
