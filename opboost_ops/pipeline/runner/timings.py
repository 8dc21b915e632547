"""How long a party's stages took: kept in its home, and in no summary, XCom or shared log.

A duration is a function of private rows: of how many a table has, how wide its values are, which
cells are at their caps. The operator of a party reads it there, as `opboost run` and the benchmarks
do for parties that are all theirs.
"""

import json
import resource
import time
from collections.abc import Mapping
from pathlib import Path

from opboost_ops.config.loading import load_site
from opboost_ops.pipeline.stage import Home

#: Folder of a run's home with a file a stage.
FOLDER = "timings"


def processor() -> float:
    """Seconds of the processor: of this process, and of those that it has started and awaited."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def note(home: Home, stage: str, spent: Mapping[str, float]) -> None:
    """Keep what a stage took.

    Args:
        home: The party's, of the run.
        stage: Its name.
        spent: Seconds, by what they were spent on.
    """
    rounded = {what: round(seconds, 6) for what, seconds in spent.items()}
    home.write_json(f"{FOLDER}/{stage}", rounded)


def spent_by(site_file: Path, federation: str, run: str) -> dict[str, dict[str, float]]:
    """What each stage of a party took in a run.

    Args:
        site_file: The party's ``site.yaml``.
        federation: Name of the federation.
        run: The run's id.

    Returns:
        ``seconds`` and ``processor_seconds`` without data quality, which is ``quality_seconds``
        and ``quality_processor_seconds``, and what else a stage says, by stage.
    """
    folder = load_site(site_file).home / federation / run / FOLDER
    return {path.stem: json.loads(path.read_bytes()) for path in sorted(folder.glob("*.json"))}
