"""Where the artifacts of a store lie: ``HVXTUNE_ARTIFACTS``, a kind, a colon and a place.

``folder:PATH`` (the default is the folder ``artifacts`` of the state directory) or ``database:``.
An installed package adds a kind by an entry point of the group ``hvxtune.artifacts``::

    [project.entry-points."hvxtune.artifacts"]
    azure = "my_package.azure:AzureContainer"
"""

from __future__ import annotations

import os
from typing import Final

from tuner.errors import UserError
from tuner.keeping.artifact_storage import ArtifactStorage
from tuner.registry import Registry

ARTIFACTS_VARIABLE: Final = "HVXTUNE_ARTIFACTS"
_FORMS = "folder:PATH or database:"

_REGISTRY: Registry[ArtifactStorage] = Registry(
    "kind of artifact storage",
    "hvxtune.artifacts",
    {
        "folder": "db.files.folder:LocalFolder",
        "database": "db.files.rows:DatabaseRows",
    },
    ArtifactStorage,
    choose_with=f"set {ARTIFACTS_VARIABLE} to {_FORMS}, or leave it out for a folder here",
)


def open_storage(setting: str | None, database: object) -> ArtifactStorage:
    """The storage that ``setting`` names, else ``HVXTUNE_ARTIFACTS``, else the folder
    ``artifacts`` of the state directory. ``database`` is that of the artifacts.

    Raises ``UserError`` for anything but a setting, ``ToolchainError`` if a package is missing.
    """
    given = setting or os.environ.get(ARTIFACTS_VARIABLE) or "folder:"
    kind, colon, location = given.partition(":")
    if not colon:
        raise UserError(
            f"{ARTIFACTS_VARIABLE} '{given[:100]}' has no kind",
            accepted=_FORMS,
            next_step=f"for a folder write folder:{given[:100]}" if "/" in given else "",
        )
    return _REGISTRY.find(kind).open(location, database)
