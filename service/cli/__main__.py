"""``python -m service.cli``: the same command where no script is installed."""

import sys

from service.cli import main

sys.exit(main())
