"""What is not needed is not imported: the command line must start at once."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing

from db import open_store
from tests.db.writer import ROOT

PROGRAM = """
import sys
import db
early = {m for m in ("sqlalchemy",) if m in sys.modules}
store = db.open_store()
store.jobs()
store.close()
late = {m for m in ("psutil", "psycopg") if m in sys.modules}
print(sorted(early), sorted(late))
"""


def test_importing_db_imports_no_sqlalchemy_and_reading_no_driver_of_another() -> None:
    with closing(open_store()):
        pass  # the tables are there, as they are in all but the first run
    command = [sys.executable, "-c", PROGRAM]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    assert ended.stdout == "[] []\n"
