"""Functions that MkDocs calls while it builds the site (its option ``hooks``)."""

from __future__ import annotations

import posixpath
import re
from importlib.metadata import version

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from service.cli.site.reference import reference_pages

_UPWARD = re.compile(r"\[(`?)([^\]]+?)\1\]\((\.\./[^)#\s]+)[^)]*\)")
_CODE = re.compile(r"`[^`\n]+`")
_ROLE = re.compile(r":(?:class|func|meth|mod|attr|data):(?=<code>)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The version in the header of every page, and the anchors that links have on GitHub."""
    config.site_name = f"hvxtune {version('hvxtune')}"
    config.mdx_configs["toc"] = {"permalink": True, "slugify": anchor}
    return config


def anchor(heading: str, _separator: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the references; they are never files of the repository."""
    for place, text in reference_pages().items():
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to files of the repository outside ``docs``, which the site lacks, become their paths;
    ``\\|`` in code within tables is a bar, as on GitHub."""
    folder = posixpath.dirname(page.file.src_uri)
    lines = _UPWARD.sub(lambda link: _within(link, folder), markdown).split("\n")
    return "\n".join(
        _CODE.sub(lambda code: code[0].replace(r"\|", "|"), line) if line[:1] == "|" else line
        for line in lines
    )


def _within(link: re.Match[str], folder: str) -> str:
    """``link`` in a page of ``folder``; its text and path if it leads out of the site."""
    place = posixpath.normpath(posixpath.join(folder, link[3]))
    if not place.startswith("../"):
        return link[0]
    text, path = link[2], place.removeprefix("../")
    return f"`{path}`" if path.endswith(text) else f"{text} (`{path}`)"


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Roles of docstrings, as in ``:class:`` before code, are left out."""
    return _ROLE.sub("", html)
