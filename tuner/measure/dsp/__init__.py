"""Candidates on a real DSP: a phone's, or that of the SDK's simulator.

``shared_object`` links them, ``queue`` holds the files of one call of the driver and its results,
``bundle`` the outcome of each run; ``device`` joins them into a :class:`DspDevice`, whose ``call``
is all that a kind of device adds. ``sdk`` finds the parts of a Hexagon SDK. Nothing here knows
adb or a simulator.
"""
