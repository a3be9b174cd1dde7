"""The tables of cases, a module for each area."""
