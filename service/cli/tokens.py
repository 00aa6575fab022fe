"""Access to the service of this machine's database: ``token create``, ``list``, ``revoke``; and
its record of changes: ``audit``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.auth.caller import Quotas, Reads, Scope
from service.cli.options import AsJson
from service.cli.output import print_json, print_line, print_sentence, print_table, time_text

if TYPE_CHECKING:
    from db.access.audit import AuditEntry

DAY_S = 24 * 3600.0
MOST_DAYS = 36_500


def _quota(option: str, meaning: str) -> Any:
    return typer.Option(option, min=0, metavar="N", help=f"{meaning} (no limit).")


def create(
    scope: Annotated[
        list[Scope] | None,
        typer.Option("--scope", help="A scope of the token; repeat for more."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The user that jobs are submitted by."),
    ] = None,
    owner: Annotated[
        str | None,
        typer.Option(
            metavar="OWNER", help="The owner of its jobs and uploads, such as a team (the name)."
        ),
    ] = None,
    read: Annotated[
        Reads,
        typer.Option(
            "--read", help="How far the scope read reaches: shared things and its owner's, or all."
        ),
    ] = Reads.OWN,
    expires: Annotated[
        str | None,
        typer.Option(metavar="WHEN", help="12h, 90d, 2027-01-31 or never (365d)."),
    ] = None,
    running_jobs: Annotated[int | None, _quota("--running-jobs", "Jobs that run at once")] = None,
    trials_per_day: Annotated[
        int | None, _quota("--trials-per-day", "Trials asked for in 24 hours")
    ] = None,
    upload_bytes_per_day: Annotated[
        int | None, _quota("--upload-bytes-per-day", "Bytes uploaded in 24 hours")
    ] = None,
    requests_per_minute: Annotated[
        int | None, _quota("--requests-per-minute", "Requests in a minute")
    ] = None,
    local: Annotated[
        bool,
        typer.Option(
            "--local",
            help="Leave it for commands on this machine, which then use it; admin and never by"
            " default.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make a token and print it, this once."""
    from db import open_store
    from db.access.tokens import revoke_token
    from service.auth.audit import record
    from service.auth.local_token import keep_local_token
    from service.auth.tokens import (
        DEFAULT_EXPIRES,
        issue,
        issue_detail,
        issued_json,
        local_user,
        read_expiry,
    )
    from tuner.errors import StoreError, UserError

    if name is None and not local:
        raise UserError(
            "a token without --name",
            accepted="--name NAME, the user that its jobs are submitted by",
        )
    with open_store() as store:
        quotas = Quotas(running_jobs, trials_per_day, upload_bytes_per_day, requests_per_minute)
        with store.transaction():
            text, token = issue(
                store,
                name=local_user() if name is None else name,
                scopes=scope or ([Scope.ADMIN] if local else []),
                quotas=quotas,
                expires_at=read_expiry(expires or ("never" if local else DEFAULT_EXPIRES)),
                owner=owner,
                reads=read,
            )
            record(store, None, "token.create", token.id, issue_detail(token))
        try:
            file = str(keep_local_token(text.text)) if local else None
        except StoreError:  # nobody has seen it
            with store.transaction():
                revoke_token(store, token.id)
                record(store, None, "token.revoke", token.id, {"name": token.name})
            raise
    if as_json:
        print_json({**issued_json(text, token), "token_file": file})
        return
    print_line(text.text)
    print_line(
        f"token {token.id} of {token.name}: {', '.join(token.scopes)}; expires"
        f" {time_text(token.expires_at, 'never')}. It is not shown again."
    )
    if file:
        print_line(f"commands on this machine find it in {file}")


def list_tokens(
    all_tokens: Annotated[
        bool, typer.Option("--all", help="Expired and revoked ones too.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the tokens, without their secrets."""
    from db import open_store
    from db.access.tokens import all_tokens as read_all
    from service.auth.tokens import token_json

    with open_store() as store:
        found = [token_json(token) for token in read_all(store)]
    shown = [one for one in found if all_tokens or one["state"] == "valid"]
    if as_json:
        print_json({"tokens": shown})
    elif not shown:
        print_sentence("no valid token; `hvxtune token create` makes one")
    else:
        print_table(
            ["token", "user", "owner", "state", "scopes", "quotas", "expires", "last used"],
            [
                [
                    one["id"],
                    one["name"],
                    one["owner"],
                    one["state"],
                    " ".join(one["scopes"]) + (" of all" if one["read"] == Reads.ALL else ""),
                    " ".join(f"{k}={v}" for k, v in one["quotas"].items() if v is not None),
                    time_text(one["expires_at"], "never"),
                    time_text(one["last_used_at"], "never"),
                ]
                for one in shown
            ],
        )


def revoke(
    token: Annotated[
        str, typer.Argument(metavar="TOKEN", help="A token's id, as `token list` shows it.")
    ],
    as_json: AsJson = False,
) -> None:
    """End TOKEN for good; a running service refuses it within two seconds."""
    from db import open_store
    from db.access.tokens import revoke_token
    from service.auth.audit import record
    from service.auth.tokens import token_json
    from service.token_text import parse

    whole = parse(token)  # people paste all of it
    with open_store() as store, store.transaction():
        revoked = revoke_token(store, whole.id if whole else token)
        record(store, None, "token.revoke", revoked.id, {"name": revoked.name})
    if as_json:
        print_json(token_json(revoked))
    else:
        print_line(f"token {revoked.id} of {revoked.name} is revoked")


def audit(
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="At most this many.")] = 50,
    prune: Annotated[
        int | None,
        typer.Option(
            min=0, max=MOST_DAYS, metavar="DAYS", help="Delete entries older than this many days."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List who changed what through the service, and who was refused; newest first."""
    from db import open_store
    from db.access.audit import newest_entries, prune_entries
    from service.auth.audit import entry_json, record

    with open_store() as store:
        if prune is not None:
            with store.transaction():
                deleted = prune_entries(store, time.time() - prune * DAY_S)
                record(store, None, "audit.prune", f"{prune} days", {"deleted": deleted})
            if as_json:
                print_json({"deleted": deleted})
            else:
                print_line(f"{deleted} entries older than {prune} days are deleted")
            return
        found = newest_entries(store, limit)
    if as_json:
        print_json({"entries": [entry_json(entry) for entry in found]})
    elif not found:
        print_sentence("nothing was changed through the service yet")
    else:
        _print_entries(found)


def _print_entries(found: list[AuditEntry]) -> None:
    print_table(
        ["when", "token", "action", "subject", "from", "detail"],
        [
            [
                time_text(entry.at),
                entry.token_id or "",
                entry.action,
                entry.subject,
                entry.client,
                " ".join(f"{name}={value}" for name, value in entry.detail.items()),
            ]
            for entry in found
        ],
    )
