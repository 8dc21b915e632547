"""Parties of horizontal learning in one process, meeting over a real store."""

import threading
import uuid
from dataclasses import dataclass, field
from datetime import date

import numpy as np

from opboost_ops.config.loading import parse_federation
from opboost_ops.domain import Domain
from opboost_ops.exchange.encryption import PrivateKey, new_encryption_key
from opboost_ops.exchange.rounds.conversation import Conversation, Messages
from opboost_ops.exchange.rounds.mailbox import Mailbox
from opboost_ops.exchange.rounds.protocol import Identity
from opboost_ops.exchange.signing import Signer, new_signing_key
from opboost_ops.exchange.store.store import LocalStore
from opboost_ops.extras.datasets.workspace import federation_terms
from opboost_ops.learning.federboost.federboost import Settings
from opboost_ops.learning.federboost.histogram import Growth
from opboost_ops.learning.federboost.objectives import Objective
from opboost_ops.learning.private import noise as model_noise
from opboost_ops.mechanisms import noise

RUN, PLAN = "0" * 16, "ab" * 32
TODAY = date(2026, 1, 1)


def declaration(keys, **training):
    """Content of a federation file of these parties; the first one is active."""
    data = {
        "version": 1,
        "name": "banks",
        "uuid": str(uuid.uuid5(uuid.NAMESPACE_DNS, "banks")),
        "terms": federation_terms("Test"),
        "learning": "horizontal",
        "id": {"column": "id", "type": "string"},
        "domain": {"lower": 1, "upper": 256},
        "parties": {name: {"role": "passive", **of} for name, of in keys.items()},
        "training": {"trainer": "federboost", "private": "none", **training},
    }
    data["parties"][next(iter(keys))] |= {
        "role": "active",
        "label": {"column": "default", "task": "binary", "classes": [0, 1]},
        "features": {
            name: {"uuid": str(uuid.uuid5(uuid.NAMESPACE_DNS, name)), "bounds": [0, 10]}
            for name in ("income", "age", "debt")
        },
    }
    return data


@dataclass
class Banks:
    """Parties with keys, and the store between them."""

    folder: object
    count: int = 3
    encrypted: bool = True
    private: dict | None = None
    mean: int = 1
    signers: dict = field(default_factory=dict)
    decrypting: dict = field(default_factory=dict)

    def __post_init__(self):
        keys = {}
        self.names = [f"bank_{chr(97 + i)}" for i in range(self.count)]
        for i, name in enumerate(self.names):
            private, public = new_signing_key(bytes([i + 1] * 32))
            path = self.folder / f"{name}.key"
            path.write_text(private)
            path.chmod(0o600)
            self.signers[name] = Signer.from_file(path)
            keys[name] = {"signing_key": public}
            if self.encrypted:
                secret, public = new_encryption_key(bytes([i + 1] * 32))
                path = self.folder / f"{name}.enc"
                path.write_text(secret)
                path.chmod(0o600)
                self.decrypting[name] = PrivateKey.from_file(path)
                keys[name]["encryption_key"] = public
        training = {"private": self.private} if self.private else {}
        self.federation = parse_federation(declaration(keys, **training), "federation.yaml")
        self.store = LocalStore(self.folder / "store")
        self.pinned = {name: signer.public for name, signer in self.signers.items()}

    @property
    def active(self):
        return self.names[0]

    def identity(self, name, run=RUN):
        secret = bytes([ord(name[-1])] * 32)
        seed = noise.run_seed(secret, self.federation.name, run, bytes(32))
        draw = self.draw if self.private else None
        return Identity(name, self.signers[name], secret, seed, noise=draw)

    def draw(self, phase, count):
        """A party's noise; of a known law, and drawn as in a run."""
        return model_noise.skellam(count, self.mean)

    def mailbox(self, name, store=None, run=RUN, timeout=20.0):
        talk = Conversation(self.federation, run, PLAN, self.pinned, self.decrypting.get(name))
        messages = Messages(self.identity(name, run), store or self.store, talk, timeout)
        return Mailbox(messages, self.folder / f"kept_{run}_{name}", today=lambda: TODAY)

    def together(self, work, only=None, store=None, **options):
        """Call ``work(mailbox, number)`` for every party at once: results and errors by name.

        What the test itself says is false is no party's error: it is raised here.
        """
        found, errors, failed = {}, {}, []

        def one(i, name):
            try:
                found[name] = work(self.mailbox(name, (store or {}).get(name), **options), i)
            except AssertionError as error:
                failed.append(error)
            except Exception as error:
                errors[name] = error
            except BaseException as error:  # `pytest.fail`'s, too
                failed.append(error)

        threads = [
            threading.Thread(target=one, args=(i, name))
            for i, name in enumerate(self.names)
            if only is None or name in only
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]
        return found, errors


def some_rows(rows=240, seed=1):
    """Columns, labels and settings of a small problem on the federation's domain."""
    random = np.random.default_rng(seed)
    columns = [random.integers(1, most, rows) for most in (257, 5, 257)]
    label = (columns[0] + 40 * columns[1] + random.normal(0, 20, rows) > 200).astype(float)
    growth = Growth(depth=2, learning_rate=0.3, penalty=1.0, min_node_rows=5)
    settings = Settings(Objective("binary", 2), (Domain(1, 256),) * 3, 3, 8, growth)
    return columns, label, settings
