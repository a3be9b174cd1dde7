"""A report as one HTML page, which needs no network: ``scapy-mpa report``; imported only when one is asked for."""
