"""The pages over the histories that their own tests have, served to a browser."""

from tests.unit.pages.conftest import application, token
from tests.unit.pages.served import browser, histories, look, url

__all__ = ["application", "browser", "histories", "look", "token", "url"]
