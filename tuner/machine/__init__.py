"""The machine: its state directory, its simulator, and what it lacks. Nothing here knows a job."""
