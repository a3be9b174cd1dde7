"""The fewest packets that show a finding."""
