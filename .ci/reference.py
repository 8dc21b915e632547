"""What is generated when the site is built: reference pages, lists, notebook cells, llms.txt."""

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page
from pydantic import BaseModel

from opboost_ops.cli import app
from opboost_ops.config.federation import Federation
from opboost_ops.pipeline.protocol import PHASES, STEPS

_ROOT = Path(__file__).parents[1]
_NOTEBOOK = re.compile(r"^<!-- notebook: (\S+) -->$", re.MULTILINE)
_DECISIONS = "<!-- decisions -->"
_STEPS = "<!-- steps -->"
_ENTRY = re.compile(r"^ {4}(\w+): (.+(?:\n {8}.+)*)", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages to the site."""
    schema = json.loads((_ROOT / "schemas" / "federation.schema.json").read_text())
    for name, content in {
        "reference/commands.md": "\n".join(_commands()),
        "reference/federation-keys.md": "\n".join(_keys(schema)),
    }.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Put a notebook's cells, with what they show, the decisions and the steps in their places."""
    folder = Path(config.docs_dir)
    if _STEPS in markdown:
        return markdown.replace(_STEPS, "\n".join(_steps()))
    if _DECISIONS in markdown:
        return markdown.replace(_DECISIONS, "\n".join(_decisions(folder / "adr")))
    return _NOTEBOOK.sub(lambda match: "\n".join(_cells(folder / match[1])), markdown)


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:  # noqa: ARG001
    """Remember the menu, which `llms.txt` lists."""
    config.extra["menu"] = nav
    return nav


def on_post_build(config: MkDocsConfig) -> None:
    """Write `llms.txt`: each page of the menu with its title and first sentence."""
    lines = [f"# {config.site_name}\n\n> {config.site_description}"]
    for section in config.extra["menu"]:
        lines.append(f"\n## {section.title}\n")
        lines += [_entry(page) for page in (section.children or [section])]
    (Path(config.site_dir) / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _steps() -> Iterator[str]:
    """All steps of the protocol, as a table."""
    roles = {phase.name: phase.roles for phase in PHASES}
    yield "| step | where | does | sends |\n| --- | --- | --- | --- |"
    for step in STEPS.values():
        names = dict.fromkeys(r for task in step.tasks for r in roles[task.split(".")[0]])
        where = ", ".join(role.replace("_", " ") for role in names)
        sends = ", ".join(f"`{kind}`" for kind in step.publishes)
        yield f"| `{step.name}` | {where} | {step.does} | {sends} |"


def _entry(page: Page) -> str:
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", page.markdown or "")
    first = next((p for p in text.split("\n\n") if re.match(r"[A-Z`*]", p)), "")
    sentence = re.match(r".*?\.(?=\s|$)", " ".join(first.split()))
    return f"- [{page.title}]({page.url}): {sentence[0] if sentence else ''}"


def _decisions(folder: Path) -> Iterator[str]:
    for file in sorted(folder.glob("[0-9]*.md")):
        title = file.read_text(encoding="utf-8").partition("\n")[0]
        yield f"- [{title.removeprefix('# ')}]({file.name})"


def _cells(notebook: Path) -> Iterator[str]:
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            yield re.sub(r"^# .+\n", "", source) + "\n"
            continue
        yield f"```python\n{source}\n```\n"
        for output in cell["outputs"]:
            plain, html = ("".join(output["data"].get(f"text/{k}", "")) for k in ("plain", "html"))
            # Frames read better as text; a picture has nothing else to show.
            yield html + "\n" if plain.startswith("Picture(") else f"```text\n{plain}\n```\n"


def _commands() -> Iterator[str]:
    yield "# Commands\n\nGenerated from `opboost --help` and the help of each command.\n"
    yield from _command("opboost", typer.main.get_command(app), None)


def _command(path: str, command: Any, parent: Any) -> Iterator[str]:
    context = command.make_context(path, [], parent=parent, resilient_parsing=True)
    if parent is not None:
        yield f"## {path}\n"
    elif not hasattr(command, "commands"):
        return
    if parent is not None:
        yield _text(command.help or "") + "\n"
        usage = " ".join(command.collect_usage_pieces(context))
        yield f"```console\n$ {path} {usage}\n```\n"
        options = [
            p for p in command.params if p.name != "help" and not getattr(p, "hidden", False)
        ]
        if options:
            yield "| argument | meaning | default |\n| --- | --- | --- |"
            for option in options:
                yield "| " + " | ".join(_option(option)) + " |"
            yield ""
    for name, child in sorted(getattr(command, "commands", {}).items()):
        if not child.hidden:
            yield from _command(f"{path} {name}", child, context)


def _option(option: Any) -> tuple[str, str, str]:
    named = option.param_type_name != "argument"
    names = (
        [*option.opts, *option.secondary_opts]
        if named
        else [(option.metavar or option.name).upper()]
    )
    default = option.default
    plain = (
        isinstance(default, str | int | float) and not isinstance(default, bool) and default != ""
    )
    shown = f"`{default}`" if plain else "required" if option.required else ""
    text = _text(getattr(option, "help", "") or "").replace("\n", " ").replace("|", "\\|")
    return ", ".join(f"`{name}`" for name in names), text, shown


def _text(text: str) -> str:
    """Text of a help: typer's marks of paragraphs and markup are no Markdown."""
    return re.sub(r"<", "&lt;", text.replace("\b", "").replace("\f", "")).strip()


def _keys(schema: Mapping[str, Any]) -> Iterator[str]:
    yield "# Keys of the federation file\n"
    yield "Generated from `schemas/federation.schema.json`, which editors and linters can read."
    yield "[The federation file](../federation-file.md) explains how the keys work together.\n"
    yield from _object("federation.yaml", schema)
    for name, part in sorted(schema["$defs"].items()):
        if "properties" in part:
            yield from _object(name, part)
        elif "enum" in part:
            values = ", ".join(f"`{value}`" for value in part["enum"])
            yield f"## {name}\n\n{_prose(part)}\n\nOne of {values}.\n"


def _prose(part: Mapping[str, Any]) -> str:
    return _text(re.split(r"\n\n?Attributes:", part.get("description", ""))[0])


def _object(name: str, part: Mapping[str, Any]) -> Iterator[str]:
    yield f"## {name}\n\n{_prose(part)}\n"
    told = _meanings(name)
    yield "| key | type | default | meaning |\n| --- | --- | --- | --- |"
    for key, value in part["properties"].items():
        default = "required" if key in part.get("required", ()) else ""
        if value.get("default"):
            nested = isinstance(value["default"], dict)
            shown = json.dumps(value["default"], ensure_ascii=False)
            default = "its defaults" if nested else f"`{shown}`"
        meaning = value.get("description", told.get(key, "")).replace("\n", " ").replace("|", "\\|")
        yield f"| `{key}` | {_type(value)} | {default} | {_text(meaning)} |"
    yield ""


def _meanings(name: str) -> dict[str, str]:
    """What the docstrings of a model and of its bases say of each key."""
    bases = {**_models(BaseModel), "federation.yaml": Federation}[name].__mro__
    entries = (_ENTRY.findall(inspect.cleandoc(base.__doc__ or "")) for base in reversed(bases))
    return {key: " ".join(text.split()) for found in entries for key, text in found}


def _models(root: type[BaseModel]) -> dict[str, type[BaseModel]]:
    found = {root.__name__: root} if root.__module__.startswith("opboost_ops.") else {}
    for model in root.__subclasses__():
        found |= _models(model)
    return found


def _type(value: Mapping[str, Any]) -> str:
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "const" in value:
        return f"`{json.dumps(value['const'])}`"
    if "enum" in value:
        return ", ".join(f"`{choice}`" for choice in value["enum"])
    for word in ("anyOf", "oneOf"):
        if word in value:
            parts = [_type(part) for part in value[word] if part.get("type") != "null"]
            return " or ".join(dict.fromkeys(parts))
    kind = str(value.get("type", "any"))
    if kind == "array" and "items" in value:
        return f"list of {_type(value['items'])}"
    if kind == "object" and isinstance(value.get("additionalProperties"), dict):
        return f"map to {_type(value['additionalProperties'])}"
    limits = [
        f"{sign} {value[key]}"
        for key, sign in (
            ("minimum", "≥"),
            ("exclusiveMinimum", "&gt;"),
            ("maximum", "≤"),
            ("exclusiveMaximum", "&lt;"),
        )
        if key in value
    ]
    return " ".join([kind, *limits])
