"""Qualcomm's hexagon-sim, of the Hexagon SDK: candidates run as on a phone, cycle by cycle.

``sdk`` finds the parts of an SDK, ``command`` writes the command line, ``report`` reads what the
simulator says at its end, ``launch`` and ``call`` run it contained, ``device`` is what the farm
drives and ``measurer`` the same for one job. Shared objects, the driver that loads them, its
queue and its results are those of phones (:mod:`tuner.measure.android`): one process of the
simulator runs a whole batch, so booting QuRT is paid once.

No SDK was at hand: all of this was run against a stand-in only (tests/rig/stand_in_sdk.py).
"""
