"""Work of an earlier run that is not done again while all that it was made of is the same.

Each result is in the party's own folder of the federation, beside the runs, as it outlives them.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from opboost_ops import __version__
from opboost_ops.errors import ContractError
from opboost_ops.learning.boosters.trainer import Frame, format_of
from opboost_ops.pipeline.home import Home


@dataclass(frozen=True)
class Cache:
    """The last result of one sort.

    Attributes:
        home: The folder.
        name: Of its document.
        file: Of its content.
    """

    home: Home
    name: str
    file: str

    def read(self, made_of: str) -> tuple[Mapping[str, Any], bytes] | None:
        """Facts and content, if they were made of the same and are as they were written.

        Args:
            made_of: A digest of all that the result follows from.
        """
        try:
            last = self.home.json(self.name) if self.home.has(self.name) else {}
            if last["made_of"] != made_of:
                return None
            facts, content = last["facts"], self.home.read(self.file)
            if _digest(facts, content) != last["digest"]:
                return None
        except (ContractError, OSError, ValueError, LookupError, TypeError):
            return None
        return facts, content

    def write(self, made_of: str, facts: Mapping[str, Any], content: bytes) -> None:
        """Replace the last result.

        Args:
            made_of: A digest of all that the new one follows from.
            facts: JSON values.
            content: The rest.
        """
        self.home.write(self.file, content)
        document = {"made_of": made_of, "facts": facts, "digest": _digest(facts, content)}
        self.home.write_json(self.name, document)


def baseline_cache(home: Home) -> Cache:
    """Cached predictions of the label holder's columns alone."""
    return Cache(home, "alone", "alone.npy")


def model_cache(home: Home) -> Cache:
    """The partial model."""
    return Cache(home, "trained", "trained.model")


def importance_cache(home: Home) -> Cache:
    """Cached importance of the model's features."""
    return Cache(home, "explained", "explained.lines")


def cached_files(home: Path) -> list[Path]:
    """Files of all results: they follow from people's rows.

    Args:
        home: The party's, with the folders of its federations.
    """
    makers = (baseline_cache, model_cache, importance_cache)
    caches = (cache(Home(home)) for cache in makers)
    names = [name for each in caches for name in (f"{each.name}.json", each.file)]
    return [path for name in names for path in home.glob(f"*/{name}")]


def fingerprint(words: str, frame: Frame, *more: np.ndarray) -> str:
    """A digest of all that a result is made of.

    Args:
        words: What it is made of besides rows.
        frame: Rows.
        more: Further columns or rows.
    """
    digest = hashlib.blake2b(digest_size=32)
    parts = [frame.names, frame.categorical, frame.ranked, frame.thresholds, frame.categories]
    digest.update(repr((words, parts)).encode())
    weight = np.empty(0) if frame.weight is None else frame.weight
    for array in (frame.matrix, weight, *more):
        digest.update(repr((array.shape, array.dtype.str)).encode())
        digest.update(np.ascontiguousarray(array.T).view(np.uint8).data)
    return digest.hexdigest()


def software(trainer: str) -> tuple[str, ...]:
    """The versions that a trained model follows from.

    Args:
        trainer: As the federation file names it.
    """
    return __version__, np.__version__, format_of(trainer).version()


def _digest(facts: Any, content: bytes) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode() + content).hexdigest()
