"""Values that the rooms exchange: segments, records of FPDUs, and what the user asks for (limits, assumptions)."""
