"""Lines out of a stream that comes in pieces, however long a line is."""


class Lines:
    """Takes pieces, gives the lines that they complete."""

    def __init__(self) -> None:
        self._open: list[bytes] = []

    def take(self, piece: bytes) -> list[bytes]:
        """Every line that ends in *piece*, without its newline."""
        first, *rest = piece.split(b"\n")
        if not rest:
            # Joined only when the line is complete, so that a long one is copied once and not with every piece.
            self._open.append(first)
            return []
        self._open.append(first)
        lines = [b"".join(self._open), *rest[:-1]]
        self._open = [rest[-1]]
        return lines
