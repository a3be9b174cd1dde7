"""``MPA_am``: an answering machine in Scapy's manner, a Responder that accepts connections and answers messages.

    am = MPA_am(port=7471, m=1)
    am()                    # until Ctrl-C; am.bg() runs on at the prompt, am.close() ends it

Sends come back as they are, RDMA Reads get zeros.  Whoever wants other answers derives a class with a ``make_reply`` of
his own, as of any answering machine, or gives ``answer``.
"""

from __future__ import annotations

import functools
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from scapy.ansmachine import AnsweringMachineTCP
from scapy.error import log_runtime
from scapy.packet import Packet
from scapy.sendrecv import sniff

from scapy_mpa.errors import MPAError
from scapy_mpa.framing import NOT_NEGOTIATED, EnhancedData
from scapy_mpa.layers.mpasocket import MPASocket
from scapy_mpa.packet.ddp import DDPTagged, DDPUntagged
from scapy_mpa.packet.fpdu import FPDU
from scapy_mpa.packet.rdmap import RDMAPReadRequest, RDMAPReadResponse, RDMAPSend, RDMAPTerminate

#: Octets that an RDMA Read may ask for: what one FPDU takes.
MOST_READ = 1 << 15
#: Connections that are answered at a time.
_MOST_CONNECTIONS = 64
#: What is offered to an Initiator that asks by RFC 6581: a Send as RTR message would count as one of the ULP's.
_OFFERED = EnhancedData(c=1, d=1, ird=NOT_NEGOTIATED, ord=NOT_NEGOTIATED)


class MPA_am(AnsweringMachineTCP):
    """Accept connections as Responder, and answer each FPDU for which ``make_reply`` has an answer.

    Parameters, of the constructor or of the call: ``port``, ``host`` (loopback by default), ``listener`` (a listening
    socket in their place), ``answer`` (a function from an FPDU to its answer, or None), those of ``EndpointSettings``.
    """

    function_name = "mpa_am"

    def parse_options(  # type: ignore[override]
        self,
        port: int = 7471,
        host: str = "127.0.0.1",
        listener: socket.socket | None = None,
        answer: Callable[[Packet], Packet | None] | None = None,
        **parameters: Any,
    ) -> None:
        """Take the parameters, as Scapy passes them."""
        self.port = port
        self.host = host
        self.listener = listener
        self.answer = answer
        self.parameters = {"enhanced": _OFFERED, **parameters}

    def is_request(self, req: Packet) -> int:
        """Return True if it is an FPDU whose CRC, if in use, is good."""
        return int(isinstance(req, FPDU) and req.crc_good is not False)

    def make_reply(self, req: Packet, address: Any = None) -> Packet | None:  # type: ignore[override]
        """Return the answer to an FPDU, None if there is none."""
        if self.answer is not None:
            return self.answer(req)
        below = req.payload
        if RDMAPReadRequest in req:
            read = req[RDMAPReadRequest]
            if read.read_message_size > MOST_READ:
                return FPDU() / DDPUntagged() / RDMAPTerminate(layer=0, etype=1, code=1)
            octets = bytes(read.read_message_size)
            return FPDU() / DDPTagged(stag=read.sink_stag, to=read.sink_to) / RDMAPReadResponse() / octets
        if RDMAPSend in req:
            fields = {name: getattr(below, name) for name in ("l", "opcode", "rsvdulp", "qn", "msn", "mo")}
            return FPDU() / DDPUntagged(**fields) / RDMAPSend() / bytes(req[RDMAPSend].payload)
        return None

    def sniff(self) -> None:
        """Serve until ``close`` is called."""
        listener = self.listener or socket.create_server((self.host, self.port))
        self.__dict__["_listening"] = listener
        free = threading.Semaphore(_MOST_CONNECTIONS)
        with listener:
            while True:
                free.acquire()
                try:
                    sock, address = listener.accept()
                except OSError:
                    return
                threading.Thread(target=self._serve, args=(sock, address, free), daemon=True).start()

    def sniff_bg(self) -> None:
        """Serve in a thread until ``close`` is called."""
        self.__dict__["sniffer"] = threading.Thread(target=self.sniff, daemon=True)
        self.__dict__["sniffer"].start()

    def close(self) -> None:
        """Accept no more connections."""
        listener = self.__dict__.pop("_listening", None)
        if listener is not None:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)

    def _serve(self, sock: socket.socket, address: Any, free: threading.Semaphore) -> None:
        """Answer one connection to its end."""
        try:
            connection = MPASocket.respond(sock, **self.parameters)
            send: Any = connection.send
            answer = functools.partial(self.reply, send_function=send, address=address)
            try:
                sniff(opened_socket=connection, prn=answer, store=False)
            finally:
                connection.close()
        except (MPAError, OSError, EOFError) as error:
            log_runtime.info("MPA_am: %s: %s", address, error)
        finally:
            free.release()
