"""The rules the analysis judges by, and the findings it makes."""
