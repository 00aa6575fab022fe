"""Searches compared: samplers replayed on tables of measured configs, nothing compiled.

``tables`` are the files and their spaces, ``replay`` searches one of them, ``comparison`` sets
many replays side by side. ``hvxtune search bench`` and the scripts beside this room use it; a job
does not.
"""
