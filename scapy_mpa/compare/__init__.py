"""Two captures of the same connections at two places, set side by side (RFC 5044 appendix A.4)."""
