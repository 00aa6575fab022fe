"""``python -m service.conductor``: the same as ``hvxtune conductor``, where no script is
installed, and what a service starts."""

import sys

from service.cli import main

sys.exit(main(["conductor", *sys.argv[1:]]))
