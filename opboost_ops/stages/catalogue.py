"""All stages in protocol order, with the phase in which each role runs them."""

from opboost_ops.stages.accept import accept
from opboost_ops.stages.align import align
from opboost_ops.stages.answer_splits import answer_splits
from opboost_ops.stages.assemble import assemble
from opboost_ops.stages.checks import check_frame, check_model, check_release, check_table
from opboost_ops.stages.desensitize import desensitize
from opboost_ops.stages.digest_ids import digest_ids
from opboost_ops.stages.evaluate import evaluate
from opboost_ops.stages.materialise import materialise
from opboost_ops.stages.preprocess import preprocess
from opboost_ops.stages.publish import publish
from opboost_ops.stages.rank import rank
from opboost_ops.stages.register import register
from opboost_ops.stages.request_splits import request_splits
from opboost_ops.stages.stage import Stage
from opboost_ops.stages.train import train

_STAGES = (
    Stage("check_table", {"label_holder": "open", "feature_holder": "ids"}, check_table),
    Stage("digest_ids", {"label_holder": "open", "feature_holder": "ids"}, digest_ids),
    Stage("align", {"label_holder": "align"}, align),
    Stage("preprocess", {"feature_holder": "release"}, preprocess),
    Stage("desensitize", {"feature_holder": "release"}, desensitize),
    Stage("rank", {"feature_holder": "release"}, rank),
    Stage("check_release", {"feature_holder": "release"}, check_release),
    Stage("publish", {"feature_holder": "release"}, publish),
    Stage("accept", {"label_holder": "train"}, accept),
    Stage("assemble", {"label_holder": "train"}, assemble),
    Stage("check_frame", {"label_holder": "train"}, check_frame),
    Stage("train", {"label_holder": "train"}, train),
    Stage("request_splits", {"label_holder": "train"}, request_splits),
    Stage("answer_splits", {"feature_holder": "answer"}, answer_splits),
    Stage("materialise", {"label_holder": "publish"}, materialise),
    Stage("check_model", {"label_holder": "publish"}, check_model),
    Stage("evaluate", {"label_holder": "publish"}, evaluate),
    Stage("register", {"label_holder": "publish"}, register),
)

#: Stages by name, in protocol order. `open_run` comes before them all.
STAGES = {stage.name: stage for stage in _STAGES}
