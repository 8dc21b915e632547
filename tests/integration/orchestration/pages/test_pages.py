"""What the pages say is what the parties' own files say."""

import csv
import io
import json
import re

import pytest

from opboost_ops.exchange.manifest import run_id
from opboost_ops.reports.display.blocks import Cell, Table
from opboost_ops.reports.display.tables import table_csv
from opboost_ops.reports.versions import mode_words
from tests.federation import FIRST_RUN, SECOND_RUN, Workspace
from tests.integration.orchestration.pages.conftest import Reader
from tests.integration.orchestration.pages.reading import plain, rows

PAGES = ("ledger", "models", "exchange", "quality")


def test_every_table_can_be_downloaded(reader: Reader, untouched: Workspace) -> None:
    version = f"models/credit/credit_scoring/{FIRST_RUN}"
    report = f"quality/bank/credit_scoring/{SECOND_RUN}/raw_table"
    names = set()
    for page in (*PAGES, f"run?id={FIRST_RUN}", version, report):
        for link in re.findall(r'href="/opboost/([^"]+csv=[^"]+)"', reader.page(page)):
            link = link.replace("&amp;", "&")
            names.add(link.partition("csv=")[2].partition(".")[2])
            head, *lines = csv.reader(io.StringIO(reader.page(link)))
            assert lines
            assert len(set(head)) == len(head)
    assert names >= {"columns", "exact", "lines", "artifacts", "log", "checks", "expectations"}
    assert names >= {"metrics", "features", "versions_credit_scoring", "history_credit_scoring"}


def test_models_with_metrics_named_by_their_mode(reader: Reader, untouched: Workspace) -> None:
    (version,) = rows(reader, "models", "credit.versions_credit_scoring")
    assert (version["version"], version["in use"]) == (FIRST_RUN, "champion")
    assert (version["epsilon"], version["trained with"]) == ("0.64", "4 trees, depth 3, rate 0.1")
    folder = untouched.models / FIRST_RUN
    evaluation = json.loads((folder / "evaluation.json").read_text())["metrics"]
    text = plain(reader.page("models"))
    for mode, metrics in evaluation.items():
        for name, value in metrics.items() if mode != "label_holder_alone" else ():
            assert f"{name} {value:.4f} {mode_words(mode)}" in text
    page = f"models/credit/credit_scoring/{FIRST_RUN}"
    assert reader.page(f"{page}/model.txt") == (folder / "model.txt").read_text()
    assert reader.page(f"{page}/card.html") == (folder / "card.html").read_text()
    shares = [float(line["importance"]) for line in rows(reader, page, "credit.features")]
    assert sum(shares) == pytest.approx(1)
    assert shares == sorted(shares, reverse=True)


def test_curves_and_intervals_stand_beside_the_label_holder_alone(
    reader: Reader, untouched: Workspace
) -> None:
    folder = untouched.models / FIRST_RUN
    evaluation = json.loads((folder / "evaluation.json").read_text())
    page = f"models/credit/credit_scoring/{FIRST_RUN}"
    text = reader.page(page)
    for title in ("ROC: ", "Precision: ", "Gains: ", "Calibration: "):
        assert f'aria-label="{title}' in text
    listed = {line["metric"]: line for line in rows(reader, page, "credit.intervals")}
    new = evaluation["intervals"]["federated_desensitised"]
    assert set(listed) == {name.replace("_", " ") for name in new}
    assert float(listed["auc"]["this version"]) == new["auc"]["value"]
    gain = evaluation["gains"]["label_holder_alone"]["auc"]["value"]
    assert float(listed["auc"]["gain over label holder alone"]) == gain


def test_a_run_on_its_own_page(reader: Reader, shown: Workspace) -> None:
    name, at = "credit_scoring_train", "manual__2026-01-01T00:00:00+00:00"
    mine = run_id(name, at)
    for party in ("bank", "credit", "shop"):
        home = shown.folder / party / "home" / "credit_scoring"
        (home / FIRST_RUN).rename(home / mine)
    text = plain(reader.page(f"run?dag={name}&run={at.replace('+', '%2B')}"))
    assert f"Run {mine}" in text
    assert "passed" in text
    text = plain(reader.page(f"run?id={SECOND_RUN}"))
    assert "failed" in text
    assert "bank" in text
    assert "bank, credit and shop have nothing of this run" in plain(
        reader.page(f"run?id={'f' * 16}")
    )


def test_checks_and_the_report_of_a_failed_one(reader: Reader, shown: Workspace) -> None:
    found = {line["run"]: line for line in rows(reader, "quality", "bank.checks")}
    assert found[FIRST_RUN]["raw table"] == "passed"
    assert found[SECOND_RUN]["raw table"] == "failed"
    assert found[SECOND_RUN]["release"] == ""
    page = f"quality/bank/credit_scoring/{SECOND_RUN}/raw_table"
    broken = [line for line in rows(reader, page, "bank.expectations") if line["result"] == "fail"]
    assert {line["column"] for line in broken} == {"income"}
    home = shown.home("bank") / "quality"
    assert reader.page(f"{page}.html") == (home / "raw_table.html").read_text()
    # A boundary that these pages have not heard of is shown too.
    (home / "anything.json").write_text((home / "raw_table.json").read_text())
    assert rows(reader, "quality", "bank.checks")[0]["anything"] == "failed"


FAULTS = {
    "site.yaml": ("credit/site.yaml", "site.yaml", PAGES),
    "policy.yaml": ("credit/policy.yaml", "policy.yaml", PAGES),
    "champion.json": ("credit/models/credit_scoring/champion.json", "champion.json", ("models",)),
    "database": ("credit/ledger.sqlite", "cannot be", ("ledger", "exchange")),
    "report": (
        f"credit/home/credit_scoring/{FIRST_RUN}/quality/model.json",
        "damaged",
        ("quality",),
    ),
    "plan": (f"exchange/credit_scoring/{FIRST_RUN}/plan/credit/manifest.json", "", ("exchange",)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_one_partys_fault_is_told_and_spares_the_others(
    reader: Reader, shown: Workspace, fault: str
) -> None:
    path, told, pages = FAULTS[fault]
    before = {page: plain(reader.page(page)) for page in pages}
    spoilt = shown.folder / path
    spoilt.chmod(0o644)
    spoilt.write_text("{]")
    for page in PAGES:
        text = reader.page(page)
        if page in pages:
            assert plain(text) != before[page]
            assert told in plain(text)
            others = [p for p in ("bank", "shop") if f'<section id="{p}">' in text]
            assert others or page == "models"
        assert str(shown.folder) not in text
        assert "Traceback" not in text
    reader.page(f"run?id={FIRST_RUN}")


def test_no_cell_is_taken_for_a_formula() -> None:
    texts = ["=1+1", "+1", "-1", "@x", "\t=1", "plain"]
    table = Table("t", "t", ("a",), tuple((Cell(text),) for text in texts))
    found = [row[0] for row in csv.reader(io.StringIO(table_csv(table)))][1:]
    assert found == ["'=1+1", "'+1", "'-1", "'@x", "'\t'=1", "plain"]
    negative = Table("t", "t", ("a",), ((Cell("-1.00", -1.0),),))
    assert table_csv(negative).splitlines()[1] == "-1.0"
