"""The package's page on an index: README.md with links that hold there, where it lies nowhere.

``OPBOOST_PROJECT_URL`` names where a release's files can be read, up to the path of each:
``https://example.org/opboost-ops/blob/v0.2.0``. Without it, links within the project are left out
and their words stay.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

VARIABLE = "OPBOOST_PROJECT_URL"

#: An image or a link, unless it is to an address of its own or to a place in the page.
_WITHIN = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)\s]+)\)")


def page(text: str, base: str) -> str:
    """A page of which no link leads within the project.

    Args:
        text: In Markdown.
        base: Where the project's files can be read; empty for nowhere.
    """

    def absolute(found: re.Match[str]) -> str:
        image, words, target = found.groups()
        if base:
            return f"{image}[{words}]({base.rstrip('/')}/{target})"
        return "" if image else words

    return _WITHIN.sub(absolute, text)


class PackagePage(MetadataHookInterface):
    """Gives the built package its page."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Write the page into the package's metadata.

        Args:
            metadata: Of the project.
        """
        base = os.environ.get(VARIABLE, "")
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": page(text, base)}
        if base:
            metadata["urls"] = {
                "Documentation": f"{base.rstrip('/')}/docs/index.md",
                "Changelog": f"{base.rstrip('/')}/CHANGELOG.md",
            }
