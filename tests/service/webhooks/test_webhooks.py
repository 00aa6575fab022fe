"""The end of a job reaches its webhook: once it can, signed, and no further than it may."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from standardwebhooks import Webhook as Verifier
from standardwebhooks import WebhookVerificationError
from starlette.testclient import TestClient

from db import open_store
from db.jobs import outbox
from db.sql_store import SqlStore
from service.app import create_app
from service.auth import Scope
from service.settings import Settings
from service.webhooks import sending
from service.webhooks.addresses import RefusedError, pin
from service.webhooks.sending import Sender
from tests.service.gates import CallerGate
from tests.service.job_routes import made
from tests.service.webhooks.receiver import Receiver, receiving
from tuner.conformance.patience import until
from tuner.conformance.records import SPACE, TOOLCHAIN, spec
from tuner.records.trial import JobRequest, JobState, Submission

HERE = ("127.0.0.0/8",)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


def client_of(store: SqlStore, name: str, *scopes: Scope) -> TestClient:
    gate = CallerGate(name, *(scopes or (Scope.READ, Scope.SUBMIT)))
    app: FastAPI = create_app(store, gate, Settings(webhook_allow=HERE))
    return TestClient(app, raise_server_exceptions=False)


@pytest.fixture
def ann(store: SqlStore) -> TestClient:
    return client_of(store, "ann")


def sender(store: SqlStore, **how: Any) -> Sender:
    return Sender(
        store, Settings(webhook_allow=HERE).webhook_networks, **{"first_pause_s": 0.0, **how}
    )


def end(store: SqlStore, job: str, state: JobState = JobState.DONE, note: str = "") -> None:
    token = store.claim(job)
    store.release(job, token, state, note)


def hook(client: TestClient, url: str, **more: Any) -> dict[str, Any]:
    answer = client.post("/v1/webhooks", json={"url": url, **more})
    assert answer.status_code == 201, answer.text
    return answer.json()  # type: ignore[no-any-return]


def deliveries(client: TestClient, webhook: dict[str, Any]) -> list[dict[str, Any]]:
    return client.get(f"/v1/webhooks/{webhook['id']}/deliveries").json()["items"]  # type: ignore[no-any-return]


def test_the_end_of_a_job_is_told_and_the_signature_verified(
    store: SqlStore, ann: TestClient, receiver: Receiver
) -> None:
    webhook, job = hook(ann, receiver.url), made(store, "ann")
    assert sender(store).send_due() == 0, "it has not ended"
    end(store, job, JobState.FAILED, "no trial was ok")
    assert sender(store).send_due() == 1
    ((headers, body),) = receiver.got
    told = Verifier(webhook["secret"]).verify(body, headers)
    assert told["type"] == "job.ended"
    assert told["data"]["job"] == job
    assert (told["data"]["state"], told["data"]["note"]) == ("failed", "no trial was ok")
    assert (headers["Host"], receiver.paths) == (f"127.0.0.1:{receiver.port}", ["/hook?of=ci"])
    with pytest.raises(WebhookVerificationError):
        Verifier(webhook["secret"]).verify(body.replace(b"failed", b"done"), headers)
    (delivery,) = deliveries(ann, webhook)
    assert delivery["id"] == headers["webhook-id"]
    assert (delivery["status"], delivery["attempts"], delivery["error"]) == (200, 1, "")
    assert (delivery["delivered_at"] is not None, delivery["due_at"]) == (True, None)


def test_what_fails_is_sent_again_and_what_arrived_is_not(
    store: SqlStore, ann: TestClient, receiver: Receiver
) -> None:
    webhook, job = hook(ann, receiver.url), made(store, "ann")
    receiver.answers[:] = [500, 503]
    end(store, job)
    sent = [sender(store).send_due() for _ in range(5)]
    assert sent == [1, 1, 1, 0, 0]
    ids = {headers["webhook-id"] for headers, _ in receiver.got}
    assert (len(receiver.got), len(ids)) == (3, 1), "a receiver can tell that it is the same"
    (delivery,) = deliveries(ann, webhook)
    assert (delivery["status"], delivery["attempts"]) == (200, 3)


def test_pauses_grow_and_end(
    store: SqlStore, ann: TestClient, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "MOST_ATTEMPTS", 3)
    webhook = hook(ann, receiver.url)
    receiver.answers[:] = [500] * 10
    end(store, made(store, "ann"))
    assert [sender(store, first_pause_s=3600.0).send_due() for _ in range(2)] == [1, 0]
    (waiting,) = deliveries(ann, webhook)
    assert waiting["due_at"] > time.time() + 1000
    assert waiting["error"] == "answered 500"
    make_due(store)
    assert [sender(store).send_due() for _ in range(4)] == [1, 1, 0, 0]
    (given_up,) = deliveries(ann, webhook)
    assert (given_up["due_at"], given_up["delivered_at"], given_up["attempts"]) == (None, None, 3)


def make_due(store: SqlStore) -> None:
    """As if the pause, and every lease, had passed."""
    from sqlalchemy import update

    from db.service_models import DeliveryRow

    with store.writing() as session:
        waiting = update(DeliveryRow).where(DeliveryRow.due_at.is_not(None))
        session.execute(waiting.values(due_at=time.time(), leased_until=None))


def test_a_restart_in_between_loses_nothing(
    store: SqlStore, ann: TestClient, receiver: Receiver
) -> None:
    hook(ann, receiver.url)
    end(store, made(store, "ann"))
    (taken,) = outbox.take_due(store, 8)  # and here the service is killed
    assert outbox.take_due(store, 8) == [], "another service leaves it alone while it may be sent"
    store.close()
    again = open_store()
    try:
        make_due(again)
        assert sender(again).send_due() == 1
    finally:
        again.close()
    ((headers, _),) = receiver.got
    assert headers["webhook-id"] == taken.id


def test_an_attempt_that_lost_its_lease_undoes_nothing(
    store: SqlStore, ann: TestClient, receiver: Receiver
) -> None:
    webhook = hook(ann, receiver.url)
    end(store, made(store, "ann"))
    (slow,) = outbox.take_due(store, 8)
    make_due(store)
    sender(store).send_due()
    outbox.note_failed(store, slow, None, "no answer", time.time())
    assert sender(store).send_due() == 0
    assert deliveries(ann, webhook)[0]["status"] == 200


def test_the_thread_of_a_service_sends(
    store: SqlStore, ann: TestClient, receiver: Receiver
) -> None:
    hook(ann, receiver.url)
    with sender(store, poll_s=0.01):
        end(store, made(store, "ann"))
        until(lambda: receiver.got)
    assert len(receiver.got) == 1


def test_who_is_told_of_what(store: SqlStore, ann: TestClient, receiver: Receiver) -> None:
    bob, root = client_of(store, "bob"), client_of(store, "root", Scope.ADMIN)
    anns, bobs = made(store, "ann"), made(store, "bob")
    private = store.create_job(spec(), SPACE, TOOLCHAIN, Submission("bob", private=True)).id
    of_all, of_one = hook(ann, receiver.url), hook(ann, receiver.url, job=anns)
    of_bob, of_everybody = hook(bob, receiver.url), hook(root, receiver.url, everybodys=True)
    for job in (anns, bobs, private):
        store.request(job, JobRequest.CANCEL)

    def told(client: TestClient, webhook: dict[str, Any]) -> set[str]:
        return {delivery["job"] for delivery in deliveries(client, webhook)}

    assert (told(ann, of_all), told(ann, of_one)) == ({anns}, {anns})
    assert told(bob, of_bob) == {bobs, private}
    assert told(root, of_everybody) == {anns, bobs, private}
    assert ann.post("/v1/webhooks", json={"url": receiver.url, "job": private}).status_code == 404
    assert ann.post("/v1/webhooks", json={"url": receiver.url, "job": bobs}).status_code == 403
    everybodys = {"url": receiver.url, "everybodys": True}
    assert ann.post("/v1/webhooks", json=everybodys).status_code == 403
    for method, path in (("GET", "/deliveries"), ("DELETE", "")):
        answer = ann.request(method, f"/v1/webhooks/{of_bob['id']}{path}")
        assert answer.status_code == 404
    assert {one["id"] for one in ann.get("/v1/webhooks").json()["items"]} == {
        of_all["id"],
        of_one["id"],
    }
    assert "secret" not in ann.get("/v1/webhooks").text


def test_one_that_comes_too_late_is_told_at_once(
    store: SqlStore, ann: TestClient, receiver: Receiver
) -> None:
    job = made(store, "ann")
    end(store, job)
    hook(ann, receiver.url, job=job)
    assert sender(store).send_due() == 1


def test_a_removed_one_gets_nothing_more(
    store: SqlStore, ann: TestClient, receiver: Receiver
) -> None:
    webhook, job = hook(ann, receiver.url), made(store, "ann")
    end(store, job)
    assert ann.delete(f"/v1/webhooks/{webhook['id']}").status_code == 204
    end(store, made(store, "ann"))
    assert sender(store).send_due() == 0
    assert ann.get("/v1/webhooks").json()["items"] == []


def test_they_are_few(ann: TestClient, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    from service.routers import webhooks

    monkeypatch.setattr(webhooks, "MOST_WEBHOOKS", 2)
    for _ in range(2):
        hook(ann, receiver.url)
    refused = ann.post("/v1/webhooks", json={"url": receiver.url})
    assert refused.status_code == 422
    assert "at most 2" in refused.json()["accepted"]


def test_of_each_owner_one_message_is_sent_at_a_time(
    store: SqlStore, ann: TestClient, receiver: Receiver
) -> None:
    """Who never answers keeps nobody else waiting."""
    hook(ann, receiver.url)
    hook(client_of(store, "bob"), receiver.url)
    for user in ("ann", "ann", "ann", "bob"):
        end(store, made(store, user))
    assert sorted(message.tenant for message in outbox.take_due(store, 8)) == ["ann", "bob"]


def test_one_who_never_answers_is_given_up_for_now(store: SqlStore, ann: TestClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        webhook = hook(ann, f"http://127.0.0.1:{silent.getsockname()[1]}/")
        end(store, made(store, "ann"))
        assert sender(store, timeout_s=0.2, first_pause_s=60.0).send_due() == 1
    assert deliveries(ann, webhook)[0]["error"] == "no answer within 0.2 s"


def test_a_redirect_is_not_followed(store: SqlStore, ann: TestClient, receiver: Receiver) -> None:
    webhook = hook(ann, receiver.url)
    receiver.answers[:] = [307]
    end(store, made(store, "ann"))
    sender(store, first_pause_s=60.0).send_due()
    assert receiver.paths == ["/hook?of=ci"]
    assert deliveries(ann, webhook)[0]["error"] == "answered 307"


REFUSED = [
    "http://example.com/",
    "https://127.0.0.1/",
    "https://10.0.0.1/",
    "https://169.254.169.254/latest/meta-data",
    "https://[::1]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:10.0.0.1]/",
    "https://[64:ff9b::a00:1]/",
    "https://[2002:a00:1::]/",
    "https://[fe80::1]/",
    "https://[fd00::1]/",
    "https://0.0.0.0/",
    "https://100.64.0.1/",
    "https://224.0.0.1/",
    "https://255.255.255.255/",
    "https://ann:secret@example.com/",
    "ftp://example.com/",
    "file:///etc/passwd",
    "gopher://example.com/",
    "https://",
    "https://example.com:99999/",
    "https://example.com/\r\nX-Injected: 1",
    "//example.com/",
]


@pytest.mark.parametrize("url", REFUSED)
def test_addresses_that_only_the_service_reaches_are_refused(url: str, store: SqlStore) -> None:
    strict = TestClient(create_app(store, CallerGate("ann", Scope.SUBMIT), Settings()))
    answer = strict.post("/v1/webhooks", json={"url": url})
    assert answer.status_code == 422, answer.text
    assert strict.get("/v1/webhooks").json()["items"] == []


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3", "::1", "169.254.169.254"])
def test_a_name_that_leads_there_is_refused_when_it_is_sent(
    address: str, store: SqlStore, monkeypatch: pytest.MonkeyPatch, receiver: Receiver
) -> None:
    look_up = socket.getaddrinfo

    def rebound(host: Any, *rest: Any, **more: Any) -> Any:
        if host != "rebound.example":
            return look_up(host, *rest, **more)
        public = look_up("93.184.216.34", receiver.port, type=socket.SOCK_STREAM)
        return [*public, *look_up(address, receiver.port, type=socket.SOCK_STREAM)]

    monkeypatch.setattr(socket, "getaddrinfo", rebound)
    strict = TestClient(create_app(store, CallerGate("ann", Scope.SUBMIT), Settings()))
    webhook = hook(strict, f"https://rebound.example:{receiver.port}/")
    end(store, made(store, "ann"))
    Sender(store, (), first_pause_s=60.0).send_due()
    assert receiver.got == []
    (delivery,) = deliveries(strict, webhook)
    assert delivery["error"] == "the webhook leads to a private, local or reserved address"


def test_the_address_that_was_checked_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is looked up once: what it means a moment later does not matter."""
    asked: list[str] = []
    look_up = socket.getaddrinfo

    def once(host: Any, *rest: Any, **more: Any) -> Any:
        asked.append(host)
        return look_up("93.184.216.34", *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", once)
    pinned = asyncio.run(pin("https://hooks.example/x?y=1", ()))
    assert (pinned.url, pinned.host, pinned.name) == (
        "https://93.184.216.34:443/x?y=1",
        "hooks.example",
        "hooks.example",
    )
    assert asked == ["hooks.example"]


def test_the_operator_may_name_networks() -> None:
    allowed = Settings(webhook_allow=("10.0.0.0/8", "127.0.0.1/32")).webhook_networks
    assert asyncio.run(pin("https://10.1.2.3/", allowed)).url == "https://10.1.2.3:443/"
    assert asyncio.run(pin("http://127.0.0.1:8/", allowed)).url == "http://127.0.0.1:8/"
    for url in ("http://10.1.2.3/", "https://192.168.0.1/", "http://127.0.0.2/"):
        with pytest.raises(RefusedError):
            asyncio.run(pin(url, allowed))


def test_a_certificate_is_checked_against_the_name(store: SqlStore, receiver: Receiver) -> None:
    """The receiver speaks no TLS at all: https does not fall back to http."""
    ann = client_of(store, "ann")
    webhook = hook(ann, f"https://127.0.0.1:{receiver.port}/")
    end(store, made(store, "ann"))
    sender(store, first_pause_s=60.0).send_due()
    assert receiver.got == []
    assert deliveries(ann, webhook)[0]["error"].startswith("cannot be reached")


def test_bodies_are_bounded(store: SqlStore, ann: TestClient, receiver: Receiver) -> None:
    hook(ann, receiver.url)
    end(store, made(store, "ann"), JobState.FAILED, "x" * 100_000)
    sender(store).send_due()
    ((_, body),) = receiver.got
    assert len(body) < 4096
    assert json.loads(body)["data"]["note"] == "x" * 500
