"""What octets say they are, where nobody says it, or where what was said does not fit.

Half connections without startup frames (:mod:`~scapy_mpa.infer.inference`), the next FPDU where neither a length nor a
Marker leads to it (:mod:`~scapy_mpa.infer.search`), and senders that deviate (:mod:`~scapy_mpa.infer.diagnosis`).
"""
