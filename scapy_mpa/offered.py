"""What upper rooms offer to lower ones: the package registers it, and imports the room only when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: Draws a connection of a report, as ``Connection.plot`` does: by the room of pictures.
draw_connection: Callable[..., Any]
#: Builds the octets of layers that a text names, as ``MPAConnection.message`` takes it: by the room of layers.
octets_of_layers: Callable[[str], bytes]
