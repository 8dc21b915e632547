"""Single rows scored at the label holder: by Python one by one and in batches, and by HTTP.

Called by `scoring.py --serve N`, on the federation whose new rows it has scored.
"""

import asyncio
import hashlib
import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.measure import timed
from opboost_ops import api
from opboost_ops.learning.boosters.trainer import predict
from opboost_ops.learning.registry.registry import model_in
from opboost_ops.pipeline.runner.local import run_federation

#: Requests a second that are asked of the endpoint, and over how many connections.
RATE, CONNECTIONS = 1000, 16

PORT = 8759


def single_rows(file: Path, new: pl.DataFrame, count: int, names: list[str]) -> dict[str, Any]:
    """Score rows one by one, in batches and by HTTP, and compare them with the batch.

    Args:
        file: The federation file; its new rows were scored.
        new: All parties' columns of the new rows.
        count: How many rows are scored one by one, and asked of the endpoint.
        names: All features.
    """
    folder = file.parent
    before = digests(folder)
    (scores,) = (folder / "a" / "scores").rglob("*.parquet")
    batch = pl.read_parquet(scores).head(count)
    scorer = api.Scorer(folder / "a", file)
    own = pl.read_parquet(folder / "a" / "tables" / "score.parquet")
    frame = batch.select("id").join(own, on="id", how="left", maintain_order="left")
    rows = frame.to_dicts()
    for row in rows[:100]:
        scorer.score(row)
    seconds, found = [], []
    processor = time.process_time()
    for row in rows:
        begin = time.perf_counter()
        found.append(scorer.score(row).score)
        seconds.append(time.perf_counter() - begin)
    processor = time.process_time() - processor
    framed, frame_seconds = timed(lambda: scorer.score_frame(frame))
    listed, dict_seconds = timed(lambda: scorer.score_rows(rows))
    expected = batch["score"].to_list()
    equal = [found, framed["score"].to_list(), [one.score for one in listed]]
    registry = api.models(file)
    first = str(registry.champion)
    matrix = np.asfortranarray(new.head(count).select(names).to_numpy())
    text = model_in(registry.files())
    predict(text, matrix)
    _, alone = timed(lambda: predict(text, matrix))
    result = {
        "rows": len(rows),
        "equal_to_the_bit": all(each == expected for each in equal),
        "files_unchanged": digests(folder) == before,
        "p50_ms": round(1000 * float(np.percentile(seconds, 50)), 2),
        "p99_ms": round(1000 * float(np.percentile(seconds, 99)), 2),
        "processor_ms_a_row": round(1000 * processor / len(rows), 2),
        "frame_rows_a_second": round(len(rows) / frame_seconds),
        "dict_rows_a_second": round(len(rows) / dict_seconds),
        "lightgbm_rows_a_second": round(len(rows) / alone),
    }
    # Another version to promote in the middle.
    second = run_federation(file, {"trees": 10}).run
    registry.promote(first)
    return result | endpoint(file, rows, second)


def digests(folder: Path) -> dict[str, str]:
    """Every file of all parties."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def endpoint(file: Path, rows: list[dict[str, Any]], second: str) -> dict[str, Any]:
    """Ask `opboost serve` for every row, and promote another version in the middle."""
    token = file.parent / "a" / "keys" / "serve.token"
    token.write_text("benchmark" * 8)
    token.chmod(0o600)
    words = ("serve", str(file.parent / "a"), str(file), "--port", str(PORT))
    command = (sys.executable, "-c", "from opboost_ops.cli import main; main()", *words)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
        try:
            return asyncio.run(asked(rows, token.read_text(), lambda: promote(file, second)))
        finally:
            server.terminate()


def promote(file: Path, version: str) -> None:
    """Make a version champion."""
    api.models(file).promote(version)


async def asked(rows: list[dict[str, Any]], token: str, middle: Any) -> dict[str, Any]:
    """Send a request a row at the declared rate; late ones are sent as soon as they can be."""
    for _ in range(600):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", PORT)
            writer.close()
            break
        except OSError:
            await asyncio.sleep(0.1)
    numbers = iter(range(len(rows)))
    seconds: list[float] = []
    statuses: Counter[int] = Counter()
    versions: Counter[str] = Counter()
    begin = time.perf_counter()

    async def connection() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
        for i in numbers:
            await asyncio.sleep(max(begin + i / RATE - time.perf_counter(), 0))
            if i == len(rows) // 2:
                await asyncio.to_thread(middle)
            body = json.dumps({"row": rows[i]}).encode()
            head = f"POST /score HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {token}\r\n"
            sent = time.perf_counter()
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = int(answer.partition("content-length:")[2].split()[0])
            document = json.loads(await reader.readexactly(length))
            seconds.append(time.perf_counter() - sent)
            statuses[int(answer.split()[1])] += 1
            versions[document.get("version", "none")] += 1
        writer.close()

    await asyncio.gather(*(connection() for _ in range(CONNECTIONS)))
    whole = time.perf_counter() - begin
    return {
        "http_requests_a_second": round(len(rows) / whole),
        "http_p50_ms": round(1000 * float(np.percentile(seconds, 50)), 2),
        "http_p99_ms": round(1000 * float(np.percentile(seconds, 99)), 2),
        "http_statuses": dict(statuses),
        "http_rows_by_version": dict(versions),
    }
