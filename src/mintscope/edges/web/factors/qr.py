"""A QR code as the path of an SVG: drawn here, with no file and no style of its own."""

from typing import NamedTuple

import segno


class QrCode(NamedTuple):
    """*path* draws the dark squares, each one unit wide, inside a square of *size* units."""

    size: int
    path: str


def qr_code(text: str) -> QrCode:
    """Return the QR code of *text*, with the quiet border that readers need."""
    rows = [list(row) for row in segno.make_qr(text, error="m").matrix_iter(border=4)]
    runs = []
    for y, row in enumerate(rows):
        x = 0
        while x < len(row):
            end = x
            while end < len(row) and row[end]:
                end += 1
            if end > x:
                runs.append(f"M{x} {y}h{end - x}v1H{x}z")
            x = end + 1
    return QrCode(len(rows), "".join(runs))
