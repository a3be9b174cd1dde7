"""Pictures of a connection, by matplotlib; imported only when one is asked for."""
