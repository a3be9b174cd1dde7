"""What is looked at beside receiving: the rules that a connection may break though its FPDUs can be placed.

Each module watches one thing.  It is handed what the receiver has made out anyway, keeps little, and changes nothing.
"""
