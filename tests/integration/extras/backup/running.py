"""One of several runs at once: the folder of a federation, and the run's id."""

import sys
from pathlib import Path

from tests.federation import Workspace

if __name__ == "__main__":
    Workspace(Path(sys.argv[1]), sys.argv[2]).all()
