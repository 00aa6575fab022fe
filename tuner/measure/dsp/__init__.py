"""Candidates on a real DSP, through the driver: a phone's, or that of the SDK's simulator."""
