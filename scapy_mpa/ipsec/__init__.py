"""IPsec's ESP (RFC 4303), under which MPA may travel (RFC 5044 §9.3): keys, and packets with them."""
