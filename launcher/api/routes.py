"""Those who bring routes of their own to an application."""

from typing import Protocol

from aiohttp import web


class Adding(Protocol):
    """Whatever has routes of its own."""

    def add_to(self, app: web.Application) -> None:
        """Let *app* serve them."""
