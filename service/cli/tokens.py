"""Access to a service: ``token create``, ``list``, ``revoke``; and its record of changes:
``audit``."""

from __future__ import annotations

import time
from itertools import islice
from typing import Annotated, Any

import typer

from service.auth.caller import Reads, Scope
from service.auth.tokens import MOST_QUOTA
from service.cli.connecting import connected
from service.cli.options import AsJson, ServerAddress
from service.cli.output import print_json, print_line, print_sentence, print_table, time_text

DAY_S = 24 * 3600.0
MOST_DAYS = 36_500


def _quota(option: str, meaning: str, least: int = 0) -> Any:
    told = f"{meaning} (no limit)."
    return typer.Option(option, min=least, max=MOST_QUOTA, metavar="N", help=told)


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
        int | None, _quota("--requests-per-minute", "Requests in a minute", least=1)
    ] = None,
    local: Annotated[
        bool,
        typer.Option(
            "--local",
            help="Leave it for commands on this machine, which then use it; admin and never by"
            " default.",
        ),
    ] = False,
    server: ServerAddress = None,
    as_json: AsJson = False,
) -> None:
    """Make a token and print it, this once."""
    from service.auth.local_token import keep_local_token
    from service.auth.tokens import DEFAULT_EXPIRES, local_user
    from tuner.errors import StoreError, UserError

    for option, value, accepted in (
        ("--name", name, "the user that its jobs are submitted by"),
        ("--scope", scope, ", ".join(Scope)),
    ):
        if not value and not local:
            raise UserError(f"a token without {option}", accepted=accepted)
    limits = {
        "running_jobs": running_jobs,
        "trials_per_day": trials_per_day,
        "upload_bytes_per_day": upload_bytes_per_day,
        "requests_per_minute": requests_per_minute,
    }
    with connected("" if local else server) as client:
        made = client.create_token(
            name=name or local_user(),
            scopes=scope or [Scope.ADMIN],
            quotas=limits,
            expires=expires or ("never" if local else DEFAULT_EXPIRES),
            owner=owner,
            read=read,
        )
        try:
            file = str(keep_local_token(made["token"])) if local else None
        except StoreError:  # nobody has seen it
            client.revoke_token(made["id"])
            raise
    if as_json:
        print_json({**made, "token_file": file})
        return
    print_line(made["token"])
    print_line(
        f"token {made['id']} of {made['name']}: {', '.join(made['scopes'])}; expires"
        f" {time_text(made['expires_at'], 'never')}. It is not shown again."
    )
    if file:
        print_line(f"commands on this machine find it in {file}")


def list_tokens(
    all_tokens: Annotated[
        bool, typer.Option("--all", help="Expired and revoked ones too.")
    ] = False,
    server: ServerAddress = None,
    as_json: AsJson = False,
) -> None:
    """List the tokens, without their secrets."""
    with connected(server) as client:
        shown = [one for one in client.tokens() if all_tokens or one["state"] == "valid"]
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
    server: ServerAddress = None,
    as_json: AsJson = False,
) -> None:
    """End TOKEN for good; a running service refuses it within two seconds."""
    from service.token_text import parse

    whole = parse(token)  # people paste all of it
    with connected(server) as client:
        revoked = client.revoke_token(whole.id if whole else token)
    if as_json:
        print_json(revoked)
    else:
        print_line(f"token {revoked['id']} of {revoked['name']} is revoked")


def audit(
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="At most this many.")] = 50,
    prune: Annotated[
        int | None,
        typer.Option(
            min=0, max=MOST_DAYS, metavar="DAYS", help="Delete entries older than this many days."
        ),
    ] = None,
    server: ServerAddress = None,
    as_json: AsJson = False,
) -> None:
    """List who changed what through the service, and who was refused; newest first."""
    if prune is not None:
        _prune(prune, as_json=as_json)
        return
    with connected(server) as client:
        found = list(islice(client.audit(), limit))
    if as_json:
        print_json({"entries": found})
    elif not found:
        print_sentence("nothing was changed through the service yet")
    else:
        print_table(
            ["when", "token", "action", "subject", "from", "detail"],
            [
                [
                    time_text(one["at"]),
                    one["token"] or "",
                    *(one[name] for name in ("action", "subject", "client")),
                    " ".join(f"{name}={value}" for name, value in one["detail"].items()),
                ]
                for one in found
            ],
        )


def _prune(days: int, *, as_json: bool) -> None:
    """Deletes entries of this machine's database: no token may rewrite the record."""
    from db import open_store
    from db.access.audit import prune_entries
    from service.auth.audit import record

    with open_store() as store, store.transaction():
        deleted = prune_entries(store, time.time() - days * DAY_S)
        record(store, None, "audit.prune", f"{days} days", {"deleted": deleted})
    if as_json:
        print_json({"deleted": deleted})
    else:
        print_line(f"{deleted} entries older than {days} days are deleted")
