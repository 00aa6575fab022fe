"""Twenty pipelines that camera, audio and ML people write, as uploads, and how well they are tuned.

``pipelines`` has them; ``python -m benchmarks.everyday`` tunes them.
"""
