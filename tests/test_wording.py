"""The worst phrases stay out of all that people read: pages, texts of the dashboards, product text.

Each pattern comes with its better wording. Quoted code is not judged: inline code and blocks of
Markdown, double backquotes and roles of docstrings, option names, and literals without a space.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("tuner", "service", "db", "dashboards")

PHRASES = (
    (
        (
            r"(?<!there\s)\b(?:is|are|was|were|be) no (?!longer|more|less|fewer|better|worse"
            r"|later|earlier|slower|faster|larger|smaller|higher|lower|further|one\b"
            r"|different)[a-z]"
        ),
        "'is not a ...', 'no such ...'",
    ),
    (
        r"\b(?:has|have) not(?= (?:the|a|an|all|any|exactly|one|enough|its|their)\b|[.;,)])",
        "'lacks', 'does not have'",
    ),
    (
        r"\bso (?:many|much|long|often)\b(?! that| as)",
        "'that many', 'at most N', 'this long', 'a given ...'",
    ),
    (r"\bhow (?:\w+ ){1,3}stands?\b", "'state', 'status', 'progress'"),
    (r"\bmore search is likely\b", "'expected optimum', 'estimated remaining gain'"),
    (r"\bby and by\b", "'gradually', 'repeatedly'"),
    (r"\bon what (?:\w+ ){1,2}depends?\b", "'what ... depends on', 'inputs', 'dependencies'"),
    (r"\bwho(?:m|se)?ever\b", "'anyone who', 'the caller', 'the operator'"),
    (r"\b(?:comes|came) to (?!light)", "'reaches', 'ends in', 'amounts to'"),
    (r"\bwhat there is\b", "'available', 'existing'"),
    (
        r"\b(?:that|what|which|who|as) (?:is|are|was|were) there\b",
        "'that exists', 'present', 'available'",
    ),
    (r"\bthere (?:is|are|was|were) none\b", "'if absent', 'without one', 'when none exists'"),
    (r"\b(?:gone|goes|went|go) before\b", "'precedes', 'takes precedence over', 'earlier'"),
    (r"\bone's own\b", "'your own', 'the caller's own'"),
    (r"\b(?:is|are|was|were) not to (?:be )?", "'must not', 'cannot', 'not available'"),
    (
        r"\b(?:that|who|which|what) (?:is|are) to (?!the\b)",
        "'that should', 'that will', 'to be ...ed'",
    ),
    (r"\b(?:he|him|his|himself)\b", "'they', 'them', 'their'"),
    (
        r"\bwhat (?:\w+ ){1,3}(?:is|are) (?:about|of|for)\b",
        "name the thing: 'the purpose', 'the subject'",
    ),
    (r"\bdearer\b", "'costlier', 'more expensive'"),
    (r"\bfore(?:tell|tells|told|telling)\b", "'predict'"),
    (r"\bof late\b", "'recently'"),
    (r"\bpassengers?\b|\bboard(?:ing|ed)\b", "'bundle entry', 'pack'"),
    (
        r"\bsettl(?:e|es|ed|ing)\b",
        "'nearest_config' of a config; else 'decide', 'resolve', 'wait until'",
    ),
    (r"\bgoals?\b", "'objective'"),
    (r"\b(?:became|becomes|become) of\b", "'outcome', 'history', 'result'"),
    (r"\b(?:come|comes|came) of\b", "'result from', 'result'"),
    (r"\bsee(?:s|n)? to it\b", "'ensure'"),
    (
        r"\bever (?:later|longer|more rarely|less often)\b",
        "'with growing delays', 'less and less often'",
    ),
    (r"\banew\b", "'again', 'from scratch'"),
    (r"\bheld against\b", "'compared with', 'checked against'"),
    (r"\bbut for\b", "'except', 'apart from'"),
    (r"\bfor ever\b", "'permanently', 'forever'"),
    (
        r"\b(?:go|goes|went|gone) on (?:with|where|after|later|when|if|until|while)\b",
        "'continue', 'resume'",
    ),
    (
        r"\b(?:ends?|stops?|ended|stopped|ending|closes?)(?: \w+){0,3} in order(?! to| of)\b",
        "'cleanly', 'gracefully'",
    ),
    (r"\bsome (?=[0-9]|tens\b|dozens\b|two\b|three\b)", "'about'"),
    (
        (
            r"\b(?:a|an|the) (?!few|little|bit|lot|day|hour|second|minute|step|once|some|the"
            r"|much)[a-z]+ more(?= of\b|[.,;:]|$)"
        ),
        "'one more ...', 'an additional ...'",
    ),
    (
        (
            r"\b(?:lest|thereof|whereof|wherein|hitherto|henceforth|whence|whither|therein"
            r"|herein)\b"
        ),
        "a plainer word",
    ),
    (r"\bdo(?:es)? not tell\b", "'determine', 'say nothing about'"),
    (r"\b(?:be|been) had\b", "'available', 'obtained'"),
    (r"\bnobody's fault who\b|\bwhose (?:\w+ )?is what\b", "plain subject and verb"),
    (r"\bno other\b[^.]{0,30}\bbut\b", "'only'"),
    (r"\bas far as (?:it|they|that) can be told\b", "'where known'"),
    (r"\bmay take so\b", "'may take'"),
    (r"\b(?:stands|stood|stand) (?:in the way|above|below|beside)\b", "'is above', 'is shown ...'"),
    (r"\bis of (?:its|their) own\b", "'is separate'"),
    (r"\bthat is where\b", "'there'"),
    (r"\bgone through\b", "'read', 'checked', 'iterated over'"),
)
"""Patterns and better wordings; a space is any white space, case does not count."""

OPENERS = {
    r"\AWhat\b": "name the thing: 'The ...', 'Returns ...', 'A ...'",
    r"\A(?:Who|Whose|Whom|On what|Of what|As what)\b": "plain subject and verb, or a noun",
}
"""Of docstrings, comments and texts in Python; case counts."""


@dataclass(frozen=True)
class Text:
    """A piece that people read, from ``line`` of ``place`` on; ``opens`` if it is a whole one."""

    place: Path
    line: int
    content: str
    opens: bool = False


@dataclass(frozen=True)
class Hit:
    """A phrase, where it is, and what to write."""

    place: Path
    line: int
    found: str
    better: str

    def __str__(self) -> str:
        return f"{self.place}:{self.line}: {' '.join(self.found.split())!r}; better: {self.better}"


def blanked(pattern: str, text: str) -> str:
    """``text`` with what matches made short, its lines kept for the numbers of lines."""
    return re.sub(pattern, lambda m: "x" + "\n" * m[0].count("\n"), text, flags=re.DOTALL)


def without_code(text: str) -> str:
    for code in (r"^```.*?^```$", r"``.+?``", r":\w+:`[^`]+`", r"`[^`\n]*(?:\n[^`\n]*)?`"):
        text = blanked("(?m)" + code, text)
    return blanked(r"\]\([^)]*\)|https?://\S+|--[a-z][a-z-]*", text)


class Shown(HTMLParser):
    """The texts of a template: between tags, and in the attributes that browsers show or say."""

    def __init__(self, place: Path) -> None:
        super().__init__()
        self.place = place
        self.texts: list[Text] = []

    def handle_data(self, data: str) -> None:
        self.texts.append(Text(self.place, self.getpos()[0], data))

    def handle_comment(self, data: str) -> None:
        self.handle_data(data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name in ("title", "aria-label", "alt", "placeholder", "content"):
                self.handle_data(value)


def template_texts(path: Path, place: Path) -> Iterator[Text]:
    """Of what stands in braces the quoted texts remain."""

    def quoted(found: re.Match[str]) -> str:
        texts = re.findall(r'"([^"]* [^"]*)"|\'([^\']* [^\']*)\'', found[0])
        return f" {'; '.join(a or b for a, b in texts)} " + "\n" * found[0].count("\n")

    parser = Shown(place)
    braces = r"\{\{.*?\}\}|\{%.*?%\}"
    parser.feed(re.sub(braces, quoted, path.read_text(), flags=re.DOTALL))
    yield from parser.texts


def script_texts(path: Path, place: Path) -> Iterator[Text]:
    pieces = r"""//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`"""
    content = path.read_text()
    for found in re.finditer(pieces, content, re.DOTALL):
        if " " in found[0]:
            yield Text(place, content.count("\n", 0, found.start()) + 1, found[0].strip("/*\"'` "))


class Literals(ast.NodeVisitor):
    """Every text in a module; the parts of a formatted one are put together."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.texts: list[Text] = []

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and re.search(r"\s", node.value):
            self.texts.append(Text(self.place, node.lineno, node.value, opens=True))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        parts = [
            str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
        ]
        self.texts.append(Text(self.place, node.lineno, "".join(parts), opens=True))
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.visit(part.value)


def python_texts(path: Path, place: Path) -> Iterator[Text]:
    source = path.read_text()
    literals = Literals(place)
    literals.visit(ast.parse(source))
    yield from literals.texts
    comments = [
        token
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    ]
    at, lines = 0, [""]
    for token in comments:
        if token.start[0] != at + len(lines):
            yield Text(place, at, "\n".join(lines))
            at, lines = token.start[0], []
        lines.append(token.string.lstrip("# "))
    yield Text(place, at, "\n".join(lines))


@cache
def texts() -> dict[str, list[Text]]:
    """By kind of reader: the pages, the dashboards, the product."""
    tracked = [Path(name) for name in listed().split("\n") if (ROOT / name).is_file()]
    found: dict[str, list[Text]] = {"pages": [], "dashboards": [], "product": []}
    for place in tracked:
        path, room = ROOT / place, place.parts[0]
        if place.suffix == ".md" and room in ("docs", place.name):
            found["pages"].append(Text(place, 1, path.read_text()))
        elif "vendor" in place.parts or room not in ROOMS:
            continue
        elif place.suffix == ".html":
            found["dashboards"] += template_texts(path, place)
        elif place.suffix == ".js":
            found["dashboards"] += script_texts(path, place)
        elif place.suffix == ".py":
            found["product"] += python_texts(path, place)
    return {
        kind: [Text(t.place, t.line, without_code(t.content), t.opens) for t in pieces]
        for kind, pieces in found.items()
    }


def listed() -> str:
    """The files that are under version control, new ones too; a copy without git has its own."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return done.stdout
    return "\n".join(str(p.relative_to(ROOT)) for p in ROOT.rglob("*.*") if ".venv" not in p.parts)


def hits_in(text: Text) -> Iterator[Hit]:
    lowered = text.content.lower()
    for pattern, better in PHRASES:
        for found in compiled(pattern).finditer(lowered):
            line = text.line + text.content.count("\n", 0, found.start())
            yield Hit(text.place, line, found[0], better)
    for pattern, better in OPENERS.items():
        opened = text.opens and re.match(pattern, text.content)
        if opened:
            yield Hit(text.place, text.line, text.content[:40], better)


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace(" ", r"\s+"))


def hits(kind: str) -> list[Hit]:
    return [hit for text in texts()[kind] for hit in hits_in(text)]


@pytest.mark.parametrize("kind", ["pages", "dashboards", "product"])
def test_no_text_has_one_of_the_worst_phrases(kind: str) -> None:
    assert len(texts()[kind]) > 5
    found = hits(kind)
    assert not found, f"{len(found)} phrases\n" + "\n".join(map(str, found))


@pytest.mark.parametrize(
    "text",
    [
        "'x' is no file",
        "the token has not the scope 'submit'",
        "at most so many tries",
        "how they stand",
        "98 % of what more search is likely to find",
        "asked again by and by",
        "On what it depends that all definitions agree.",
        "What the DSP loads.",
        "then one of his jobs",
        "the fastest one that is there",
        "what several goals are of",
        "a config is\n    settled",
    ],
)
def test_a_bad_phrase_is_found_and_a_better_one_named(text: str) -> None:
    found = list(hits_in(Text(Path("some.py"), 7, without_code(text), opens=True)))
    assert found
    assert all(hit.better and str(hit).startswith("some.py:") for hit in found)


@pytest.mark.parametrize(
    "text",
    [
        "no such file",
        "there is no adb on the PATH",
        "the token lacks the scope 'submit'",
        "a contract that is no longer kept, and is no faster",
        "so many that none fits",
        "the option `--goals` and ``settle(space, config)`` are code",
        "say what is measured",
    ],
)
def test_plain_english_and_code_are_left_alone(text: str) -> None:
    assert list(hits_in(Text(Path("some.py"), 7, without_code(text), opens=True))) == []


def test_texts_are_read_from_every_kind_of_file(tmp_path: Path) -> None:
    """Formatted texts as one, attributes that people see, strings and comments of scripts."""
    (tmp_path / "a.py").write_text('x = f"{y} is" f" no file"\n# so many\n# tries\n')
    (tmp_path / "a.html").write_text("<p title='one bad'>two\n{{ x or 'three bad' }}</p>\n")
    (tmp_path / "a.js").write_text('const x = "four bad"; // five\n')
    read = [
        text.content
        for read, name in [
            (python_texts, "a.py"),
            (template_texts, "a.html"),
            (script_texts, "a.js"),
        ]
        for text in read(tmp_path / name, Path(name))
    ]
    for expected in ("{} is no file", "so many\ntries", "one bad", "four bad", "five"):
        assert expected in read, (expected, read)
    assert any("three bad" in text for text in read)
