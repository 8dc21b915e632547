"""Data Docs of Great Expectations, from reports in the party's home."""

import json
from collections.abc import Sequence
from pathlib import Path

from opboost_ops.quality.validation import context

_SITE = "export"


def write_data_docs(reports: Sequence[Path], folder: Path) -> Path:
    """Write Data Docs.

    The pages load scripts and styles from the web. They show names of columns and counts of rows,
    and are for the party's own people.

    Args:
        reports: Reports of checks in the party's home, ``quality/<boundary>.json``.
        folder: Folder of the pages.

    Returns:
        The first page.
    """
    engine = context()
    from great_expectations.core.expectation_validation_result import (
        expectationSuiteValidationResultSchema,
    )
    from great_expectations.core.run_identifier import RunIdentifier
    from great_expectations.data_context.types.resource_identifiers import (
        ExpectationSuiteIdentifier,
        ValidationResultIdentifier,
    )

    store = engine.validation_results_store
    for path in reports:
        result = expectationSuiteValidationResultSchema.load(json.loads(path.read_bytes()))
        suite = ExpectationSuiteIdentifier(name=result.suite_name)
        run = RunIdentifier(run_time=result.meta["batch_markers"]["ge_load_time"])
        # The pages read the run's ID from the metadata.
        result.meta["run_id"] = run
        key = ValidationResultIdentifier(suite, run, path.stem)
        store.store_validation_results(result, key, suite)
    site = {
        "class_name": "SiteBuilder",
        "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
        "store_backend": {
            "class_name": "TupleFilesystemStoreBackend",
            "base_directory": str(folder.resolve()),
        },
    }
    engine.add_data_docs_site(_SITE, site)
    try:
        engine.build_data_docs(site_names=[_SITE])
    finally:
        engine.delete_data_docs_site(_SITE)
        for key in store.list_keys():
            store.remove_key(key)
    return folder / "index.html"
