"""A door in front of a server: shut, nobody reaches it, and it keeps what it knows."""

import contextlib
import socket
import threading


class Gate:
    """Forwards connections to a port of this machine while it is open.

    Args:
        target: The port behind it.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener: socket.socket | None = None
        self._ends: set[socket.socket] = set()
        self.port = 0
        self.open()

    def open(self) -> None:
        """Let everybody in, by the same port as before."""
        self._listener = socket.create_server(("127.0.0.1", self.port), reuse_port=False)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, args=[self._listener], daemon=True).start()

    def shut(self) -> None:
        """Refuse new connections, and cut those that there are."""
        assert self._listener is not None
        # A thread that waits in accept keeps the port: it is woken first.
        for end in (self._listener, *self._ends):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._ends.clear()

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                return
            self._ends |= {client, server}
            for pair in ((client, server), (server, client)):
                threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._ends -= {source, sink}
        source.close()
        sink.close()
