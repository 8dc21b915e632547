"""Heads that others give: books that went back are refused, whosever they are."""

from collections.abc import Mapping

from opboost_ops.errors import PolicyError
from opboost_ops.exchange.books import open_books
from opboost_ops.exchange.manifest import Manifest, head_towards
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.privacy.heads import Head
from opboost_ops.run.evidence import note_seen
from opboost_ops.run.first_check import went_back
from opboost_ops.run.publication import Publisher


class Watch:
    """What a party sees of others' books in a run.

    Args:
        party: Who sees it.
        federation: Name of the federation.
        run: The run's id.
        label_holder: The federation's.
    """

    def __init__(self, party: Publisher, federation: str, run: str, label_holder: str) -> None:
        self._party = party
        self._federation = federation
        self._run = run
        self._holder = label_holder
        self._before: Mapping[str, Head] = {}

    def see(self, manifest: Manifest) -> None:
        """Keep the head of an artifact that is about to be accepted.

        Args:
            manifest: The artifact's, verified.

        Raises:
            Rejected: Its signer's books are older than what was seen of them.
            PolicyError: The signer has seen later books of this party than it has.
        """
        if manifest.kind == "plan":
            # What the label holder had seen when it opened the run: whoever takes part in it takes
            # a higher number. Runs that overlap may come in any order.
            self._before = manifest.seen
        if manifest.party == self._party.name:
            return
        what, sender = manifest.reference, manifest.party
        towards = head_towards(manifest.kind, manifest.about, self._holder)
        with open_books(self._party.site) as books:
            if manifest.head is None:
                if books.heads.last_seen(self._federation, sender, towards) is None:
                    return
                found = "none"
            else:
                before = self._before.get(sender) if towards == self._party.name else None
                found = books.heads.see(
                    self._federation,
                    sender,
                    towards,
                    self._run,
                    manifest.head,
                    before.number if before else 0,
                )
            if found:
                raise Rejected("older_books", f"{what}: {_WORDS[found].format(sender)}")
            mine = manifest.seen.get(self._party.name)
            if mine is not None:
                note_seen(self._party.site, self._federation, self._run, self._holder, mine)
            lost = mine and list(
                went_back(books, self._party.name, self._federation, self._holder, mine)
            )
        if lost and manifest.kind != "plan":
            # Of the plan it is told at admission, with all else.
            raise PolicyError(
                f"{self._party.name} stops run {self._run} of {self._federation}: its books are "
                "older than what others have seen of them.",
                "Its own people look at `opboost ledger check SITE`.",
            )


_WORDS = {
    "none": "it says nothing of the books of {}, of which earlier ones did.",
    "older": "the books of {} are older than what it has published before.",
    "another": "the books of {} went back: another run, or another past, has this number.",
}
