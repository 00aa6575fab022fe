"""A real browser, and everything in it that must not happen."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache

from axe_playwright_python.sync_playwright import Axe
from playwright._impl._driver import compute_driver_executable
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tuner.conformance.patience import PATIENCE_S

_PATIENCE_MS = 1000 * PATIENCE_S
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
WATCH_POLICY = """
window.policyViolations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.policyViolations.push(`${event.violatedDirective} ${event.blockedURI}`);
});
"""


def chromium_program() -> str | None:
    """Where Chromium is; ``None`` if it is not installed."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


@cache
def lacking() -> str | None:
    """Why no test with a browser can run here; ``None`` if they can."""
    if chromium_program() is None:
        return "Chromium is not installed"
    node = compute_driver_executable()[0]
    tried = subprocess.run([node, "--version"], capture_output=True, text=True)
    if tried.returncode:
        return f"Playwright's driver does not run (package libatomic1?): {tried.stderr.strip()}"
    return None


@contextmanager
def chromium() -> Iterator[Browser]:
    """Headless. Its sandbox does not work for root, whose containers are one already."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium_program(),
            args=["--no-sandbox"] if os.geteuid() == 0 else [],
            timeout=_PATIENCE_MS,
        )
        expect.set_options(timeout=_PATIENCE_MS)
        yield browser
        browser.close()


def patient(page: Page) -> Page:
    """``page``, on which nothing is given up early."""
    page.set_default_timeout(_PATIENCE_MS)
    return page


@dataclass
class Visit:
    """A page that is watched: whatever the console or the policy complains of is kept, except
    complaints with a text that a test has ``expected``."""

    page: Page
    url: str
    complaints: list[str] = field(default_factory=list)
    expected: tuple[str, ...] = ()

    @classmethod
    def begin(cls, page: Page, url: str) -> Visit:
        """Watches ``page`` from now on."""
        visit = cls(patient(page), url)
        page.add_init_script(WATCH_POLICY)
        page.on("console", visit.hear)
        page.on("pageerror", lambda error: visit.complaints.append(str(error)))
        return visit

    def hear(self, message: ConsoleMessage) -> None:
        """Keeps what the console says, if it is a complaint."""
        expected = any(text in message.text for text in self.expected)
        if message.type in ("error", "warning") and not expected:
            self.complaints.append(message.text)

    def log_in(self, token: str) -> None:
        """Begins a session."""
        self.page.goto(f"{self.url}/ui/login")
        self.page.get_by_label("Token").fill(token)
        self.page.get_by_role("button", name="Log in").click()
        self.page.wait_for_url("**/ui/jobs")

    def go(self, place: str) -> None:
        """Opens a page and waits until it is still."""
        self.page.goto(f"{self.url}{place}")
        self.page.wait_for_load_state("load")

    def check(self, *rules: str) -> None:
        """Fails for console errors, breaches of the policy, faults of accessibility (by all of
        axe's rules, or these), and a page wider than the window."""
        breaches = self.page.evaluate("window.policyViolations")
        axe = Axe()
        if self.page.evaluate("!window.axe"):
            self.page.evaluate(axe.axe_script)
        wanted = json.dumps(
            {"resultTypes": ["violations"], **({"runOnly": rules} if rules else {})}
        )
        found = self.page.evaluate(f"axe.run({wanted}).then(made => made.violations)")
        findings = [
            f"{each['id']}: {node['html'][:160]}" for each in found for node in each["nodes"]
        ]
        too_wide = self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        wide = [f"{too_wide} px wider than the window"] if too_wide > 0 else []
        faults = [*self.complaints, *breaches, *findings, *wide]
        if faults:
            raise AssertionError(f"{self.page.url}: " + "; ".join(faults))
