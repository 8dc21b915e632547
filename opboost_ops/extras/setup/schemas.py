"""Writes JSON Schemas of files and manifests: ``python -m opboost_ops.extras.setup.schemas``."""

import sys
from pathlib import Path

from opboost_ops.config.schemas import write_schemas
from opboost_ops.exchange.manifest import Manifest

if __name__ == "__main__":
    write_schemas(Path(*sys.argv[1:] or ["schemas"]), {"manifest": Manifest})
