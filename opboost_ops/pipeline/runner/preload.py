"""What a process imports before it forks those that execute stages, so that each has it for free.

It imports, makes the settings of Great Expectations, compiles the templates of documents and has
OpenSSL find its algorithms; beyond that it uses nothing, as threads do not survive a fork.
"""

from contextlib import suppress
from importlib import import_module

#: Ours. The runner is first: it says how OpenMP's threads wait, which is read when that is loaded.
OURS = (
    "opboost_ops.pipeline.runner.runner",
    "opboost_ops.quality.checks",
    "opboost_ops.pipeline.party.form_values",
    "opboost_ops.pipeline.runner.opening",
)

#: What these import when it is first needed.
THEIRS = (
    "great_expectations",
    "lightgbm",
    "pandas",
    "polars",
    "cryptography.hazmat.backends.openssl.backend",
    "pyarrow.vendored.version",
)


def preload() -> None:
    """Import all of it."""
    for name in OURS:
        import_module(name)
    for name in THEIRS:
        # A system library may be missing: the stages that need it say so, others go on.
        with suppress(OSError):
            import_module(name)
    from opboost_ops.exchange.signing import new_signing_key, signed_by
    from opboost_ops.mechanisms.noise import heads_key
    from opboost_ops.quality.validation import context
    from opboost_ops.reports.display.html import compile_documents

    compile_documents()
    # OpenSSL looks for each algorithm when it is first used; this key is nobody's.
    signed_by(new_signing_key(bytes(32))[1], b"", bytes(64))
    heads_key(bytes(32), "", "")
    # A judgement would start a thread, of a progress bar that is not shown; its settings do not.
    context()
