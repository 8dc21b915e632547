"""A party's variables are in no other party's process: neither its environment nor its memory."""

import contextlib
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opboost_ops.pipeline.runner.fork_server import ForkServer, early_environment
from opboost_ops.pipeline.runner.local import run_federation
from tests.federation import Workspace

pytestmark = pytest.mark.slow

#: Where a process keeps what it read: its heap and what it mapped itself, no library's.
_OWN = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) rw\S* \S+ \S+ 0\s*(\[heap\])?$", re.MULTILINE)


def started_here() -> set[int]:
    """The processes that this one has started, and theirs."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found: set[int] = set()
    while more := {p for p, parent in parents.items() if parent in {os.getpid(), *found}} - found:
        found |= more
    return found


def contents(pid: int) -> bytes:
    """What a process has in its environment, on its command line and in its memory."""
    place = Path(f"/proc/{pid}")
    found = [(place / "environ").read_bytes(), (place / "cmdline").read_bytes()]
    size = os.sysconf("SC_PAGE_SIZE")
    with (place / "mem").open("rb", 0) as memory, (place / "pagemap").open("rb", 0) as pages:
        for low, high, _ in _OWN.findall((place / "maps").read_text()):
            first, last = int(low, 16) // size, int(high, 16) // size
            pages.seek(8 * first)
            # The two highest bits of an entry: the page is in memory, or swapped out.
            entries = np.frombuffer(pages.read(8 * (last - first)), np.uint64) >> np.uint64(62)
            bounds = np.flatnonzero(np.diff((entries > 0).astype(np.int8), prepend=0, append=0))
            for begin, end in bounds.reshape(-1, 2).tolist():
                memory.seek((first + begin) * size)
                with contextlib.suppress(OSError):  # Unmapped meanwhile.
                    found.append(memory.read((end - begin) * size))
    return b"".join(found)


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="Linux shows memory there")
def test_no_process_of_a_party_knows_another_partys_variables(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    parties = list(workspace.declared.parties)
    # Each in a variable that libraries might read, of the party's own, and of a former key.
    names = {p: (f"OMP_{p.upper()}_LEDGER", f"{p.upper()}_TOKEN") for p in parties}
    canaries = {party: f"canary-{party}-{os.urandom(12).hex()}" for party in parties}
    for party in parties:
        ledger, token = names[party]
        folder = workspace.folder / party
        monkeypatch.setenv(ledger, f"sqlite:///{folder}/{canaries[party]}.sqlite")
        for name in (token, f"{token}_FORMER"):
            monkeypatch.setenv(name, f"{canaries[party]}-in-{name}")

        def named(site: dict[str, Any], ledger: str = ledger, token: str = token) -> None:
            site["ledger"], site["serve_token"] = f"env:{ledger}", f"env:{token}"

        workspace.edit_yaml(f"{party}/site.yaml", named)
    monkeypatch.setenv("NOBODYS", "canary-that-no-site-names")
    for party in parties:
        # Moved where the variable says: the agreement is in it.
        before = workspace.folder / party / "ledger.sqlite"
        before.rename(before.with_name(f"{canaries[party]}.sqlite"))

    # As a command starts it before it has read any site: here it knows what it should not.
    early = ForkServer(early_environment())
    # Those of other tests, which share this process.
    others = started_here()
    knows: dict[int, set[str]] = {}
    looks = [1, 5]
    done = dict.fromkeys(parties, 0)

    def look(party: str, event: dict[str, Any]) -> None:
        done[party] += event["event"] == "finished"
        # Once when all have begun, and once later.
        if not looks or min(done.values()) < looks[0]:
            return
        looks.pop(0)
        for pid in started_here() - others:
            try:
                read = contents(pid)
            except (FileNotFoundError, ProcessLookupError):
                continue
            knows.setdefault(pid, set()).update(
                name
                for name, canary in {**canaries, "nobody": "canary-that-no-site-names"}.items()
                if canary.encode() in read
            )

    with early:
        run_federation(workspace.file, {}, look, server=early)
    assert not looks
    found = sorted(sorted(known) for known in knows.values())
    # The server's own process knows nobody's.
    assert found == sorted([[], *([party] for party in parties)])
