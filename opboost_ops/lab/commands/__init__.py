"""`opboost evaluate`: the papers' workloads, by one command each."""

import typer

from opboost_ops.lab.commands import (
    accuracy,
    alignment,
    cost,
    denoise,
    dpboost,
    federation,
    federboost,
    figures,
    horizontal,
    horizontal_audit,
    horizontal_private,
    improvements,
    month,
    order,
    privacy,
    range_query,
    report,
    table5,
    tuning,
)

__all__ = ["app"]

app = typer.Typer(help="The papers' workloads, by one command each.", no_args_is_help=True)

app.command("federation")(federation.command)
app.command("accuracy")(accuracy.command)
app.command("improvements")(improvements.command)
app.command("denoise")(denoise.command)
app.command("tuning")(tuning.command)
app.command("federboost")(federboost.command)
app.command("order")(order.command)
app.command("range-query")(range_query.command)
app.command("dpboost")(dpboost.command)
app.command("table5")(table5.command)
app.command("alignment")(alignment.command)
app.command("month")(month.command)
app.command("privacy")(privacy.command)
app.command("cost")(cost.command)
app.command("figures")(figures.command)
app.command("horizontal")(horizontal.command)
app.command("horizontal-audit")(horizontal_audit.command)
app.command("horizontal-private")(horizontal_private.command)
app.command("report")(report.command)
