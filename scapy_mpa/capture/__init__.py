"""Capture files to TCP segments."""
