"""The documentation as a site: the pages of ``docs`` by purpose, and references from the code.

MkDocs builds it, with ``mkdocs.yml`` and ``hooks.py`` here. Both are in the wheel, as are the
pages; MkDocs itself comes with the extra ``docs``.
"""

from pathlib import Path

CONFIG = Path(__file__).with_name("mkdocs.yml")
