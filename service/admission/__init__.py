"""The stages a request passes before its route, and why no caller can stop the others.

``connections`` bounds connections and how slowly a request may arrive. ``request_ids`` names each
request; ``bodies`` bounds bodies, and answers HEAD. ``shares`` holds each caller to a share of the
threads that answer, and of the streams. ``lookups`` runs misses and batches of the best-query
elsewhere, in pieces, and only while the client waits; ``looker`` does that work. ``turns`` hands
out the places of all of these in turn among callers."""
