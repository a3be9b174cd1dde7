"""What the rooms hand each other: segments, records of FPDUs, and what the user asks for (limits, assumptions)."""
