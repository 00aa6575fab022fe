"""A real nginx in front, as docs/operating.md has it: TLS, and a path of its own."""

from __future__ import annotations

import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import httpx
import pytest
import trustme

from service.client import Client
from tests.service.served import Served, served
from tuner.conformance.patience import PATIENCE_S, until

EXAMPLE = Path(__file__).parents[3] / "examples" / "operating" / "nginx.conf"
NGINX = shutil.which("nginx")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(NGINX is None, reason="nginx is not installed"),
]


def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    state = tmp_path_factory.mktemp("state")
    options = ("--root-path", "/hvx", "--trusted-proxy", "127.0.0.1", "--conductors", "0")
    with served(state, *options) as running:
        yield running


@pytest.fixture(scope="module")
def trust() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def address(
    service: Served, trust: trustme.CA, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Of the service behind nginx, which runs with the example's lines, on other ports."""
    folder, port = tmp_path_factory.mktemp("nginx"), unused_port()
    trust.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(
        str(folder / "both.pem")
    )
    given = EXAMPLE.read_text()
    for example, ours in (
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("/etc/hvxtune/tls/chain.pem", str(folder / "both.pem")),
        ("/etc/hvxtune/tls/key.pem", str(folder / "both.pem")),
        ("http://127.0.0.1:8100/", f"{service.url}/"),
    ):
        assert example in given
        given = given.replace(example, ours)
    temporary = "".join(
        f"{kind}_temp_path {folder / kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off; pid {folder / 'pid'}; error_log {folder / 'log'};\n"
        f"events {{}}\nhttp {{\naccess_log off;\n{temporary}{given}}}\n"
    )
    assert NGINX is not None
    command = [NGINX, "-p", str(folder), "-c", str(folder / "nginx.conf")]
    subprocess.run([*command, "-t"], check=True, capture_output=True)
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        until(lambda: listens(port))
        yield f"https://localhost:{port}/hvx"
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def trusting(trust: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    trust.configure_trust(context)
    return context


class Places(HTMLParser):
    """Where a page leads, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src", "action", "hx-get", "hx-post") and value:
                self.found.add(value)


def test_no_page_leads_out_of_the_path(
    service: Served, address: str, trusting: ssl.SSLContext
) -> None:
    with httpx.Client(verify=trusting, follow_redirects=True, timeout=PATIENCE_S) as browser:
        login = browser.get(address)
        assert str(login.url) == f"{address}/ui/login?next=/hvx/ui/jobs"
        csrf = re.search(r'name="csrf_token" value="([^"]+)"', login.text)
        assert csrf
        fields = {"csrf_token": csrf.group(1), "token": service.token, "next": "/hvx/ui/farm"}
        entered = browser.post(f"{address}/ui/login", data=fields)
        assert str(entered.url) == f"{address}/ui/farm"
        cookies = [cookie for cookie in browser.cookies.jar if cookie.name != "theme"]
        assert cookies
        assert all(cookie.path == "/hvx/ui" and cookie.secure for cookie in cookies)
        waiting, seen = [f"{address}/", f"{address}/docs"], set[str]()
        while waiting:
            place = waiting.pop().partition("#")[0]
            if place in seen:
                continue
            seen.add(place)
            page = browser.get(place)
            assert page.status_code in (200, 405), place  # forms that are only posted
            assert str(page.url).startswith(address), place
            if "text/html" in page.headers.get("content-type", ""):
                leads_to = {urljoin(str(page.url), one) for one in Places(page.text).found}
                here = {one for one in leads_to if urlsplit(one).netloc == urlsplit(address).netloc}
                assert [one for one in here if not one.startswith(f"{address}/")] == []
                waiting += here
    assert len(seen) > 15  # pages, parts of pages, scripts and styles


def test_clients_have_the_path_in_the_address(
    service: Served, address: str, trusting: ssl.SSLContext
) -> None:
    headers = {"Authorization": f"Bearer {service.token}"}
    body = {"kernel": "scale_u8", "budget": {"trials": 1}}
    with httpx.Client(verify=trusting, headers=headers, timeout=PATIENCE_S) as client:
        made = client.post(f"{address}/v1/jobs", json=body)
        assert made.status_code == 201, made.text
        place = urljoin(address, made.headers["location"])
        assert place.startswith(f"{address}/v1/jobs/")
        job = client.get(place).json()
        assert job["kernel"] == "scale_u8"
        assert client.get(f"{address}/v1/schedules/best").status_code == 422  # the fast route
        described = client.get(f"{address}/openapi.json").json()
        assert described["servers"] == [{"url": "/hvx"}]
        metrics = client.get(f"{address}/metrics").text
        assert 'route="/v1/jobs"' in metrics
        assert "/hvx" not in metrics
    with Client(address, token=service.token, verify=trusting) as ours:
        assert ours.job(job["job"])["job"] == job["job"]
