"""Laboratories larger than this machine, simulated with the costs that hvxtune has here.

``costs`` measures, ``model`` simulates one laboratory, ``sweep`` many, ``plots`` draws.
"""
