"""All stages by name; `opboost_ops.pipeline.phases` says who runs them when."""

from collections.abc import Mapping

from opboost_ops.pipeline.stage import Stage
from opboost_ops.pipeline.steps.announce_champion import announce_champion
from opboost_ops.pipeline.steps.answer_routes import answer_routes
from opboost_ops.pipeline.steps.answer_splits import answer_splits
from opboost_ops.pipeline.steps.assemble import assemble
from opboost_ops.pipeline.steps.boost import boost
from opboost_ops.pipeline.steps.check_drift import check_drift
from opboost_ops.pipeline.steps.check_model import check_model
from opboost_ops.pipeline.steps.checks import check_frame, check_release, check_scores, check_table
from opboost_ops.pipeline.steps.desensitize import desensitize
from opboost_ops.pipeline.steps.digest_ids import digest_ids
from opboost_ops.pipeline.steps.encode_rows import encode_rows
from opboost_ops.pipeline.steps.evaluate import evaluate
from opboost_ops.pipeline.steps.evaluate_own import evaluate_own
from opboost_ops.pipeline.steps.materialise import materialise
from opboost_ops.pipeline.steps.open_rows import open_rows
from opboost_ops.pipeline.steps.preprocess import preprocess
from opboost_ops.pipeline.steps.psi_answer import psi_answer
from opboost_ops.pipeline.steps.psi_query import psi_query
from opboost_ops.pipeline.steps.rank import rank
from opboost_ops.pipeline.steps.register import register
from opboost_ops.pipeline.steps.request_routes import request_routes
from opboost_ops.pipeline.steps.request_splits import request_splits
from opboost_ops.pipeline.steps.score import score
from opboost_ops.pipeline.steps.seal import seal
from opboost_ops.pipeline.steps.train import train
from opboost_ops.pipeline.steps.write_scores import write_scores

_STAGES: tuple[Stage, ...] = (
    check_table,
    check_drift,
    digest_ids,
    psi_query,
    psi_answer,
    preprocess,
    desensitize,
    rank,
    check_release,
    seal,
    open_rows,
    assemble,
    check_frame,
    train,
    encode_rows,
    boost,
    evaluate_own,
    request_splits,
    answer_splits,
    materialise,
    check_model,
    request_routes,
    answer_routes,
    evaluate,
    register,
    announce_champion,
    score,
    check_scores,
    write_scores,
)

#: Stages by name. `open_run` comes before them all.
STAGES: Mapping[str, Stage] = {stage.__name__: stage for stage in _STAGES}
