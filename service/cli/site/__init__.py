"""The documentation as a site: the pages of ``docs`` by purpose, and references from the code.

MkDocs builds it, with ``mkdocs.yml`` and ``hooks.py`` here. Both are in the wheel, as are the
pages; MkDocs itself comes with the extra ``docs``.
"""

from __future__ import annotations

import logging
from pathlib import Path

from tuner.errors import InternalError, ToolchainError
from tuner.shipped import shipped

CONFIG = Path(__file__).with_name("mkdocs.yml")


def build(folder: Path, *, strict: bool, versions: bool = False) -> None:
    """Writes the site into ``folder``, which is emptied first.

    With ``versions`` its header offers the other versions that ``versions.json`` in the folder
    above lists (:mod:`service.cli.site.versions`). With ``strict``, a broken link, a heading that
    is linked but missing, or a page that the navigation leaves out is an ``InternalError``.
    ``ToolchainError`` if the extra ``docs`` is not installed.
    """
    try:
        import mkdocstrings  # noqa: F401
        from mkdocs.commands.build import build as build_site
        from mkdocs.config import load_config
        from mkdocs.exceptions import MkDocsException
    except ImportError:
        raise ToolchainError(
            "the documentation site needs packages that are not installed (mkdocs-material)",
            next_step="install them with: pip install 'hvxtune[docs]'; or read the pages as they "
            f"are, in {shipped('docs')}",
        ) from None
    warnings = _Warnings()
    logging.getLogger("mkdocs").addHandler(warnings)
    config = load_config(
        str(CONFIG), docs_dir=str(shipped("docs")), site_dir=str(folder), strict=strict
    )
    if versions:
        config.extra["version"] = {"provider": "mike"}
    config.plugins.on_startup(command="build", dirty=False)
    try:
        build_site(config)
    except MkDocsException as error:
        reasons = "; ".join(warnings.texts) or str(error)
        raise InternalError(f"the documentation site cannot be built: {reasons}") from error
    finally:
        config.plugins.on_shutdown()
        logging.getLogger("mkdocs").removeHandler(warnings)


class _Warnings(logging.Handler):
    """Keeps the warnings of MkDocs, which says at its end only how many there were."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())
