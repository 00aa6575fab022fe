"""Tests. They mean v66 where they name no target, whichever this machine was set up for."""

import os

os.environ["HVXTUNE_TARGET"] = "hexagon-v66"  # before anything of ours is imported
