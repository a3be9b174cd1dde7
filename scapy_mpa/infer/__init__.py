"""Inference from octets alone: half connections without startup frames.

:mod:`~scapy_mpa.infer.inference` finds FPDUs in octets, :mod:`~scapy_mpa.infer.evidence` counts in bits what shows
them.
"""
