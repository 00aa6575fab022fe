"""Text that others chose: whatever it is, no terminal obeys it and no line is forged."""

from __future__ import annotations

import contextlib
import io
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from service.cli import main
from service.cli.output import print_line, print_table
from tests.tuner.network.reading.test_bad_models import small_model
from tuner.errors import UserError
from tuner.network.reading import model_file
from tuner.plain_text import plain

HOSTILE = st.text(st.sampled_from("a\x1b[2J\r\n\t\b\x9b\u202e\u2028é")).map(lambda t: f"n{t}")
"""Of letters and of what moves cursors, turns the direction of writing or ends lines."""


@given(HOSTILE)
def test_names_of_a_model_are_plain_wherever_they_are_told(name: str) -> None:
    model = small_model()
    for node in model.graph.node:
        node.name = f"{node.name}{name}"
    model.graph.node[3].output[0] = model.graph.node[4].input[0] = name
    model.graph.node.append(helper.make_node("Erf", ["out"], [f"{name} {name}"], name))
    model.graph.output[0].name = f"{name} {name}"
    graph = model_file.read_content(model.SerializeToString(), f"{name}.onnx", {"batch": 1})
    told = [graph.name, *graph.tensors, *graph.outputs]
    told += [text for node in graph.nodes for text in (node.name, node.source, node.reason)]
    assert all(text.isprintable() for text in told)


@given(HOSTILE)
def test_commands_print_nothing_that_a_terminal_obeys(text: str) -> None:
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        print_line(text)
        print_table(["", "name"], [["a", text], ["b", text]])
        with patch("service.cli.app.app", side_effect=UserError(text, next_step=text)):
            main(["jobs"])
    assert all(line.isprintable() for line in out.getvalue().split("\n"))
    (line,) = error.getvalue().splitlines()
    assert line.isprintable()


@given(st.text())
def test_what_is_plain_is_one_line_and_what_was_stays(text: str) -> None:
    assert plain(text).isprintable()
    assert plain(plain(text)) == plain(text)
    assert (plain(text) == text) == text.isprintable()
