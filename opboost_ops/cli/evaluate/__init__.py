"""`opboost evaluate`: the papers' workloads, by one command each."""

import typer

from opboost_ops.cli.evaluate import accuracy, figures, horizontal, month, table5

app = typer.Typer(help="The papers' workloads, by one command each.", no_args_is_help=True)

app.command("accuracy")(accuracy.command)
app.command("table5")(table5.command)
app.command("month")(month.command)
app.command("figures")(figures.command)
app.command("horizontal")(horizontal.command)
