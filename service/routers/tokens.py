"""Access to the service and a record of its use: tokens and the audit."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from db.access import tokens as kept
from service import reads
from service.app_state import Admin, Store
from service.auth import Quotas
from service.auth.audit import record
from service.auth.gate import Gate
from service.auth.tokens import issue, issue_detail, issued_json, read_expiry, token_json
from service.http_errors import absent
from service.openapi import problems
from service.schemas.common import PageQuery
from service.schemas.tokens import AuditList, IssuedToken, NewToken, TokenForm, TokenList

router = APIRouter(prefix="/v1", tags=["access"])


@router.get("/tokens", summary="All tokens", response_model=TokenList)
def list_tokens(_caller: Admin, store: Store) -> dict[str, Any]:
    """Every token ever made, newest first, without secrets."""
    return reads.tokens(store)


@router.post("/tokens", summary="Make a token", status_code=201, response_model=IssuedToken)
def create_token(
    new: NewToken, request: Request, response: Response, caller: Admin, store: Store
) -> dict[str, Any]:
    """The answer is the only one that shows the token."""
    with store.transaction():
        text, token = issue(
            store,
            name=new.name,
            scopes=new.scopes,
            quotas=Quotas(**new.quotas.model_dump()),
            expires_at=read_expiry(new.expires),
            owner=new.owner,
            reads=new.read,
        )
        record(store, caller, "token.create", token.id, issue_detail(token), request)
    response.headers["Cache-Control"] = "no-store"
    return issued_json(text, token)


@router.delete(
    "/tokens/{token_id}",
    summary="Revoke a token",
    response_model=TokenForm,
    responses=problems(404),
)
def revoke_token(token_id: str, request: Request, caller: Admin, store: Store) -> dict[str, Any]:
    """It is refused from now on, by other processes on the same database within two seconds. A
    token that is already revoked stays as it is."""
    with absent(), store.transaction():
        revoked = kept.revoke_token(store, token_id)
        record(store, caller, "token.revoke", token_id, {"name": revoked.name}, request)
    gate: Gate = request.app.state.gate
    gate.forget(token_id)
    return token_json(revoked)


@router.get("/audit", summary="The record of changes", response_model=AuditList)
def list_audit(
    query: Annotated[PageQuery, Query()], _caller: Admin, store: Store
) -> dict[str, Any]:
    """Changes and refused authentications, newest first."""
    return reads.audit_page(store, **query.model_dump())
