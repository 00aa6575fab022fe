"""Keeping: the interface to what is stored, and the one definition of "best".

``store`` is the contract of stores, ``memory_store`` its shortest implementation, ``best`` says
which schedule answers a question; ``artifact_storage`` is the contract of places for objects.
"""
