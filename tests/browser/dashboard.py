"""The dashboard in one tab of a browser."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Literal, Self

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Error, Locator, Page, Request, Route, expect

from tests.eventually import TIMEOUT_SECONDS, until

#: How long an expectation may take.
_TIMEOUT_MS = TIMEOUT_SECONDS / 2 * 1000
#: Rules of WCAG 2.2 AA, and axe's own good practice.
_RULES = {
    "runOnly": {
        "type": "tag",
        "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    }
}
#: Messages of the browser about responses and interruptions, which tests cause on purpose.
_EXPECTED = ("Failed to load resource", "net::ERR_")


def load(page: Page, url: str, until: Literal["commit", "load"] = "load") -> None:
    """Loads the page at *url*; again if the network of this machine has changed, which interrupts requests."""
    for is_last in (False, False, True):
        try:
            page.goto(url, wait_until=until)
            return
        except Error as error:
            if is_last or "ERR_NETWORK_CHANGED" not in str(error):
                raise


class HeldRequests:
    """The requests of a tab that match a pattern: they are sent to the server only by ``release``."""

    def __init__(self, page: Page, pattern: re.Pattern[str]) -> None:
        self._page, self._pattern = page, pattern
        self._routes: list[Route] = []
        self._released = False
        page.route(pattern, lambda route: route.continue_() if self._released else self._routes.append(route))

    def wait(self) -> None:
        """Waits until there is a request."""

        def has_one() -> bool:
            self._page.wait_for_timeout(50)
            return bool(self._routes)

        until(has_one, f"a request for {self._pattern.pattern}")

    def release(self) -> None:
        """Sends the requests, and holds no others."""
        self._released = True
        while self._routes:
            self._routes.pop().continue_()


class DashboardTab:
    """A tab; ``check`` raises if the browser has reported an error, such as a violated Content-Security-Policy."""

    def __init__(
        self,
        browser: Browser,
        url: str,
        *,
        width: int = 1280,
        height: int = 800,
        dark: bool = False,
        ignore_https_errors: bool = False,
    ) -> None:
        expect.set_options(timeout=_TIMEOUT_MS)
        self._url = url.rstrip("/")
        self._context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            # Axe is injected into the page, which the policy forbids to others; a test compares the policy itself.
            reduced_motion="reduce",
            timezone_id="Europe/Berlin",
            locale="en-GB",
            ignore_https_errors=ignore_https_errors,
        )
        self._context.set_default_timeout(_TIMEOUT_MS)
        self.page: Page = self._context.new_page()
        self.errors: list[str] = []
        #: Every request of the tab.
        self.requests: list[str] = []
        self.page.on("console", self._record_message)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        #: The open watches of the tab.
        self.streams: set[Request] = set()
        self.page.on("request", self._record_request)
        self.page.on("requestfinished", lambda request: self.streams.discard(request))
        self.page.on("requestfailed", lambda request: self.streams.discard(request))
        self.page.on(
            "dialog", lambda dialog: self.errors.append(f"a script opened a dialog: {dialog.message}")
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._context.close()

    def _record_message(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not any(text in message.text for text in _EXPECTED):
            self.errors.append(f"{message.type}: {message.text}")

    def _record_request(self, request: Request) -> None:
        self.requests.append(request.url)
        if "watch=true" in request.url:
            self.streams.add(request)

    def until_streams(self, number: int) -> None:
        """Waits until the tab has so many open watches."""

        def has_number() -> bool:
            # Only a call of Playwright processes the events of the browser.
            self.page.wait_for_timeout(50)
            return len(self.streams) == number

        until(has_number, f"{number} open watches")

    @contextmanager
    def held(self, pattern: re.Pattern[str]) -> Iterator[HeldRequests]:
        """Inside, requests whose URL matches do not reach the server until they are released."""
        requests = HeldRequests(self.page, pattern)
        yield requests
        requests.release()

    def settle(self) -> None:
        """Lets the page handle what it has received, and draw it."""
        self.page.evaluate(
            "() => new Promise(done => setTimeout(() => requestAnimationFrame(() => setTimeout(done)), 100))"
        )

    def hide(self, *, hidden: bool) -> None:
        """Hides or shows the tab, as the browser does if another one is selected."""
        self.page.evaluate(
            "hidden => { Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});"
            " document.dispatchEvent(new Event('visibilitychange')); }",
            hidden,
        )

    def check(self) -> None:
        """Raises AssertionError if the browser has reported an error."""
        assert self.errors == []

    def open(self, path: str = "") -> None:
        """Shows the page at *path*, such as ``frameworks/default/mnist``."""
        target = f"{self._url}/#/{path}" if path else f"{self._url}/"
        if self.page.url.startswith(f"{self._url}/"):
            # Otherwise a page with the same URL is not loaded again.
            self.page.goto("about:blank")
        load(self.page, target)

    def heading(self, text: str) -> Locator:
        """Waits for the page with that heading."""
        found = self.page.get_by_role("heading", level=1, name=text, exact=True)
        expect(found).to_be_visible()
        return found

    def row(self, name: str) -> Locator:
        """The row of the list with the Framework of that name."""
        link = self.page.get_by_role("link", name=name, exact=True)
        return self.page.locator("tbody tr").filter(has=link)

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    def state(self, locator: Locator, state: str) -> None:
        """Waits until the badge in *locator* shows *state*."""
        expect(locator.locator(".badge").first).to_contain_text(state)

    def violations(self) -> list[str]:
        """What axe-core finds on the current page."""
        results: Any = Axe().run(self.page, options=_RULES)
        return [
            f"{each['id']}: {each['help']}: {[node['target'] for node in each['nodes']][:5]}"
            for each in results.response["violations"]
        ]
