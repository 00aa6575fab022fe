"""Who may look and who may act: sessions, forms and headers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from importlib import import_module
from itertools import product

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from sqlalchemy import select, update

from dashboards.application import PAGES, SECURITY_HEADERS
from db.access.audit import newest_entries
from db.access.sessions import MOST_OF_A_TOKEN, begin_session, token_of_session
from db.access.tokens import all_tokens, revoke_token
from db.service_models import SessionRow
from db.sql_store import SqlStore
from service.app import create_app
from service.auth.caller import Scope
from service.auth.gate import Gate
from service.settings import Settings
from service.token_text import new_token_text
from tests.dashboards.conftest import Browser
from tests.dashboards.tokens import make_token
from tuner.conformance.records import SPACE, TOOLCHAIN, spec
from tuner.errors import StoreError
from tuner.records.trial import JobState, Submission

pytestmark = pytest.mark.sqlite

LogIn = Callable[..., Browser]


def test_without_a_session_pages_lead_to_the_login(browser: Browser) -> None:
    answer = browser.get("/ui/jobs?state=done", follow_redirects=False)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/ui/login?next=/ui/jobs%3Fstate%3Ddone"


def test_a_part_of_a_page_leads_the_whole_page_to_the_login(browser: Browser) -> None:
    answer = browser.get("/ui/jobs/x/live", headers={"HX-Request": "true"})
    assert answer.headers["hx-redirect"].startswith("/ui/login")


def test_a_login_leads_on_to_the_page_that_was_asked_for(browser: Browser, store: SqlStore) -> None:
    token = make_token(store, "ada", [Scope.READ])
    answer = browser.form("/ui/login", "/ui/login", token=token.text, next="/ui/farm")
    assert answer.history[0].headers["location"] == "/ui/farm"


def test_a_login_leads_nowhere_else(browser: Browser, store: SqlStore) -> None:
    token = make_token(store, "ada", [Scope.READ])
    for place in (
        "https://evil.example/",
        "//evil.example",
        "/ui/../..//evil",
        "/v1/x",
        "/ui/\\evil",
    ):
        answer = browser.form("/ui/login", "/ui/login", token=token.text, next=place)
        assert answer.history[0].headers["location"].startswith("/ui/")
        assert "evil.example" not in answer.history[0].headers["location"]


def test_the_cookie_is_for_this_site_only_and_holds_no_secret(
    browser: Browser, store: SqlStore
) -> None:
    token = make_token(store, "ada", [Scope.READ])
    answer = browser.form("/ui/login", "/ui/login", token=token.text).history[0]
    cookie = next(c for c in answer.headers.get_list("set-cookie") if "hvxtune_session" in c)
    words = {word.strip().lower() for word in cookie.split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/ui"} <= words
    assert "secure" not in words
    assert token.secret not in cookie


def test_the_cookie_is_secure_over_tls(app: FastAPI, store: SqlStore) -> None:
    browser = Browser(app, base_url="https://lab.example")
    token = make_token(store, "ada", [Scope.READ])
    answer = browser.form("/ui/login", "/ui/login", token=token.text).history[0]
    cookie = next(c for c in answer.headers.get_list("set-cookie") if "hvxtune_session" in c)
    assert "secure" in cookie.lower()


def test_a_wrong_token_is_refused_with_the_form_again(browser: Browser) -> None:
    for wrong, said in (
        ("hvx_wrong", "what was sent is not a token"),
        (new_token_text().text, "does not know the token"),
        ("", "no token was entered"),
    ):
        answer = browser.form("/ui/login", "/ui/login", token=wrong)
        assert answer.status_code == 401
        assert said in answer.text
        assert "hvxtune token create" in answer.text
        assert "Authorization" not in answer.text, "people fill in a form and send no headers"
    assert browser.get("/ui/jobs", follow_redirects=False).status_code == 303


def test_a_changed_cookie_is_no_session(logged_in: LogIn) -> None:
    browser = logged_in(Scope.READ)
    value = browser.cookies["hvxtune_session"]
    browser.cookies.clear()
    browser.cookies.set("hvxtune_session", value[:-3] + "abc", path="/ui")
    assert browser.get("/ui/jobs", follow_redirects=False).status_code == 303


def test_revoking_the_token_ends_its_sessions(
    logged_in: LogIn, store: SqlStore, app: FastAPI
) -> None:
    browser = logged_in(Scope.READ)
    assert browser.get("/ui/jobs").status_code == 200
    revoke_token(store, all_tokens(store)[0].id)
    app.state.gate.forget(all_tokens(store)[0].id)
    assert browser.get("/ui/jobs", follow_redirects=False).status_code == 303


def age_sessions(store: SqlStore, by_s: float) -> None:
    """As if they had begun earlier."""
    with store.writing() as session:
        session.execute(update(SessionRow).values(expires_at=SessionRow.expires_at - by_s))


def test_a_session_ends_after_half_a_day(logged_in: LogIn, store: SqlStore) -> None:
    browser = logged_in(Scope.READ)
    age_sessions(store, 11 * 3600)
    assert browser.get("/ui/jobs", follow_redirects=False).status_code == 200
    age_sessions(store, 2 * 3600)
    assert browser.get("/ui/jobs", follow_redirects=False).status_code == 303


def copy_of(browser: Browser, app: FastAPI) -> Browser:
    """Another browser with the cookie of this one."""
    thief = Browser(app, raise_server_exceptions=False)
    thief.cookies.set("hvxtune_session", browser.cookies["hvxtune_session"], path="/ui")
    return thief


def opens_pages(browser: Browser) -> bool:
    return browser.get("/ui/jobs", follow_redirects=False).status_code == 200


def stored_sessions(store: SqlStore) -> list[SessionRow]:
    with store.reading() as session:
        return list(session.scalars(select(SessionRow)))


def test_a_copied_cookie_opens_nothing_after_the_logout(
    logged_in: LogIn, app: FastAPI, store: SqlStore
) -> None:
    browser, other = logged_in(Scope.READ), logged_in(Scope.READ, name="bob")
    thief = copy_of(browser, app)
    again = Browser(create_app(store, Gate(store), Settings()))
    again.cookies = thief.cookies
    assert opens_pages(thief)
    browser.form("/ui/jobs", "/ui/logout")
    assert not opens_pages(thief)
    assert not opens_pages(again), "nor at another service on this database"
    assert opens_pages(other)
    assert [entry.action for entry in newest_entries(store, 1)] == ["session.end"]


def test_a_new_login_ends_the_session_that_the_browser_had(
    logged_in: LogIn, app: FastAPI, store: SqlStore
) -> None:
    browser = logged_in(Scope.READ)
    thief = copy_of(browser, app)
    token = make_token(store, "ada", [Scope.READ])
    browser.form("/ui/login", "/ui/login", token=token.text)
    assert opens_pages(browser)
    assert not opens_pages(thief)


def test_what_is_stored_of_a_session_does_not_make_its_cookie(
    logged_in: LogIn, app: FastAPI, store: SqlStore
) -> None:
    secret = logged_in(Scope.READ).cookies["hvxtune_session"]
    (row,) = stored_sessions(store)
    assert row.digest == hashlib.sha256(secret.encode()).hexdigest()
    thief = Browser(app)
    thief.cookies.set("hvxtune_session", row.digest, path="/ui")
    assert not opens_pages(thief)


def test_logins_over_and_over_do_not_fill_the_database(store: SqlStore) -> None:
    for number in range(MOST_OF_A_TOKEN + 5):
        begin_session(store, f"{number:064x}", "k3zq7a2m", 3600)
    assert len(stored_sessions(store)) == MOST_OF_A_TOKEN
    assert token_of_session(store, f"{MOST_OF_A_TOKEN + 4:064x}") == "k3zq7a2m"


def test_strangers_are_not_told_where_the_database_is(
    browser: Browser, store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise StoreError("the database postgresql://db7.lab/hvx cannot be used")

    token = make_token(store, "ada", [Scope.READ])
    browser.get("/ui/login")
    monkeypatch.setattr(store, "reading", refuse)
    browser.cookies.set("hvxtune_session", "made up", path="/ui")
    for answer in (
        browser.get("/ui/jobs"),
        browser.form("/ui/login", "/ui/login", token=token.text),
    ):
        assert answer.status_code == 503
        assert "db7.lab" not in answer.text
        assert "the database cannot be used now" in answer.text


KERNELS = [f"/ui/kernels/{what}" for what in ("pipeline", "package", "model", "network")]
FORMS = [
    *("/ui/login", "/ui/logout", "/ui/submit", "/ui/jobs/{job}/cancel", "/ui/jobs/{job}/pause"),
    *KERNELS,
]


def test_a_form_that_did_not_come_from_a_page_is_refused(logged_in: LogIn, store: SqlStore) -> None:
    job = store.create_job(spec(), SPACE, TOOLCHAIN)
    browser = logged_in(Scope.ADMIN)
    wrong: list[dict[str, str]] = [{}, {"csrf_token": ""}, {"csrf_token": "made up"}]
    for form, token in product(FORMS, wrong):
        data = {"kernel": "scale_u8", "token": "hvx_", **token}
        answer = browser.post(form.format(job=job.id), data=data)
        assert answer.status_code == 403
        assert "did not come from a page" in answer.text
    assert store.job(job.id).state is JobState.QUEUED
    assert len(store.jobs()) == 1


def test_reading_is_not_acting(logged_in: LogIn, store: SqlStore) -> None:
    job = store.create_job(spec(), SPACE, TOOLCHAIN, Submission("ada"))
    browser = logged_in(Scope.READ)
    assert "Submit a job" not in browser.get("/ui/jobs").text
    assert browser.get("/ui/submit").status_code == 403
    assert "Cancel" not in browser.get(f"/ui/jobs/{job.id}").text
    assert browser.form("/ui/jobs", f"/ui/jobs/{job.id}/cancel").status_code == 403
    assert store.job(job.id).state is JobState.QUEUED


def test_submitters_act_on_their_own_jobs_and_operators_on_all(
    logged_in: LogIn, store: SqlStore
) -> None:
    own, other = (
        store.create_job(spec(), SPACE, TOOLCHAIN, Submission(user)) for user in ("ada", "bob")
    )
    ada = logged_in(Scope.READ, Scope.SUBMIT)
    assert ada.form("/ui/jobs", f"/ui/jobs/{other.id}/pause").status_code == 403
    assert ada.form("/ui/jobs", f"/ui/jobs/{own.id}/pause").status_code == 200
    assert (store.job(own.id).paused, store.job(other.id).paused) == (True, False)
    operator = logged_in(Scope.READ, Scope.OPERATE, name="olga")
    assert operator.form("/ui/jobs", f"/ui/jobs/{other.id}/pause").status_code == 200
    assert store.job(other.id).paused


def test_every_page_but_the_login_needs_a_scope() -> None:
    routes = [route for name in PAGES for route in import_module(name).router.routes]
    assert all(isinstance(route, APIRoute) for route in routes)
    open_to_all = {
        route.path
        for route in routes
        if not any(hasattr(d.call, "scope") for d in route.dependant.dependencies)
    }
    assert open_to_all == {"/login", "/logout"}


def test_every_answer_keeps_foreign_code_out(browser: Browser) -> None:
    for place in ("/ui/login", "/ui/nothing", "/ui/static/base.css", "/ui/jobs"):
        answer = browser.get(place, follow_redirects=False)
        assert {k: answer.headers[k] for k in SECURITY_HEADERS} == dict(SECURITY_HEADERS)
        assert "unsafe" not in answer.headers["Content-Security-Policy"]


def test_an_unexpected_fault_is_a_page_too(
    logged_in: LogIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("the secret is 42")

    browser = logged_in(Scope.READ)
    monkeypatch.setattr("dashboards.pages.jobs.listed_page", fail)
    answer = browser.get("/ui/jobs")
    assert answer.status_code == 500
    assert "Something went wrong" in answer.text
    assert "the secret" not in answer.text
    assert answer.headers["Content-Security-Policy"]
