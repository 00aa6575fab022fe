"""A farm of measuring devices: which there are, who gets which candidate when, and their health.

- ``farm_file`` reads which devices there are; kinds of device are in :mod:`tuner.measure.device`.
- ``roster``: the state of each and who holds it, in memory here, in SQL in ``db``.
- ``health``: when devices are checked, by what, and who does it.
- ``work``, ``driver``, ``measurer``: candidates shared out, and their results reviewed.
"""
