"""Tokens as text: exactly one form, and never shown by accident."""

from __future__ import annotations

import logging
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.token_text import (
    ID_CHARACTERS,
    SECRET_CHARACTERS,
    RedactingFormatter,
    TokenText,
    holds_token,
    new_token_text,
    parse,
    redact,
    redact_all,
)

LETTERS = "abcdefghijklmnopqrstuvwxyz234567"


def words(length: int) -> st.SearchStrategy[str]:
    return st.text(LETTERS, min_size=length, max_size=length)


tokens = st.builds(TokenText, words(ID_CHARACTERS), words(SECRET_CHARACTERS))


@given(tokens)
def test_what_is_written_is_read(token: TokenText) -> None:
    assert parse(token.text) == token


@given(st.text())
def test_whatever_is_sent_is_a_token_or_is_none(text: str) -> None:
    found = parse(text)
    assert found is None or found.text == text


@given(tokens, st.data())
def test_one_character_more_less_or_other_is_another_token_or_none(
    token: TokenText, data: st.DataObject
) -> None:
    text = token.text
    at = data.draw(st.integers(0, len(text) - 1))
    character = data.draw(st.characters(codec="utf-8"))
    assert parse(text[:at] + text[at + 1 :]) is None
    assert parse(text[:at] + character + text[at:]) is None
    changed = text[:at] + character + text[at + 1 :]
    found = parse(changed)
    assert found is None or changed == text or found != token


@pytest.mark.parametrize("change", [str.upper, str.title, lambda text: text + "\n", repr])
def test_there_is_one_form_of_a_token(change) -> None:
    assert parse(change(new_token_text().text)) is None


def test_new_ones_are_random_and_long_enough() -> None:
    made = {new_token_text() for _ in range(200)}
    assert len({token.id for token in made}) == len(made)
    # 51 characters of 5 bits and one of which a bit is used: 256 bits.
    assert all(len(token.secret) == SECRET_CHARACTERS for token in made)
    for at in range(SECRET_CHARACTERS - 1):
        assert len({token.secret[at] for token in made}) > 16


def test_only_the_digest_tells_of_the_secret() -> None:
    token = new_token_text()
    assert token.secret not in repr(token)
    assert token.secret not in token.digest
    assert len(token.digest) == 64
    assert token.digest != TokenText(token.id, token.secret[::-1]).digest


around = st.text(string.ascii_letters + " /?&=\"'{}\n.,:;_-", max_size=30)


@given(around.filter(lambda text: not text.endswith("hvx_")), tokens)
def test_a_token_in_a_text_is_found_and_left_out(before: str, token: TokenText) -> None:
    text = f"{before}{token.text}"
    assert holds_token(text)
    assert token.secret not in redact(text)
    assert token.id in redact(text), "which token it was may be told"


@given(around, tokens)
def test_tokens_are_left_out_of_all_texts_of_a_document(text: str, token: TokenText) -> None:
    document = {token.text: [token.text, {"a": (text + token.text, 1, None)}]}
    assert token.secret not in str(redact_all(document))


@pytest.mark.parametrize(
    "text", ["hvx_quantize_rows", "hvx_", "hvx_gaussian_5x5", "kernel=hvx_add_u8_wide", ""]
)
def test_names_that_only_look_alike_are_left_alone(text: str) -> None:
    assert not holds_token(text)
    assert redact(text) == text


def test_a_cut_or_shouted_token_is_left_out_too() -> None:
    token = new_token_text()
    assert token.secret[:30] not in redact(token.text[:-10])
    assert token.secret.upper() not in redact(token.text.upper())


def test_logs_have_no_tokens_not_even_in_tracebacks() -> None:
    token = new_token_text()
    try:
        raise ValueError(token.text)
    except ValueError as error:
        record = logging.LogRecord(
            "x", logging.ERROR, "x.py", 1, "%s", (token.text,), (ValueError, error, None)
        )
    line = RedactingFormatter("%(message)s").format(record)
    assert "ValueError" in line
    assert token.secret not in line
