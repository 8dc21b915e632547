"""Makes the state and unpacks it: a finished training run of a small federation with seeded keys.

`python -m tests.golden.state` writes it again. Secrets follow from a public seed.
"""

import io
import tarfile
import tempfile
from dataclasses import replace
from pathlib import Path

from tests.federation import Workspace, small_credit

STATE = Path(__file__).with_name("state.tar.xz")

#: An encrypted file takes two kilobytes per column, so few columns keep the archive small.
COLUMNS = {"bank": ("income", "overdrafts"), "shop": ("late_payments", "returns_share")}


def write() -> None:
    """Run the federation once and pack its folder, with nothing of this machine."""
    with tempfile.TemporaryDirectory() as folder:
        people = small_credit(rows=80)
        features = {
            party: {n: of for n, of in every.items() if n in COLUMNS.get(party, every)}
            for party, every in people.features.items()
        }
        dataset = replace(people, features=features)
        workspace = Workspace.write(Path(folder) / "federation", dataset)
        workspace.all()
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:xz", preset=9) as archive:
            for path in sorted(workspace.folder.rglob("*")):
                if path.is_file() and folder.encode() in path.read_bytes():
                    raise AssertionError(f"{path.relative_to(folder)} names the folder it is in")
                archive.add(
                    path, path.relative_to(workspace.folder), recursive=False, filter=_anonymous
                )
    STATE.write_bytes(packed.getvalue())


def unpacked(folder: Path) -> Workspace:
    """The state in a folder of its own, about to begin its second run."""
    with tarfile.open(STATE) as archive:
        # Modes count: a secret that others may read is refused.
        archive.extraction_filter = lambda member, _: member
        archive.extractall(folder)
    return Workspace(folder)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    write()
