"""Making text fit to be shown: nothing in it may move the cursor, change colours or reverse its order."""

from __future__ import annotations

import re

# Control characters, bidirectional overrides and zero-width characters, for use between the brackets of a regular
# expression; newline and tab are decided by the caller.
HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\ufe00-\ufe0e\U000e0000-\U000e01ef"
)
_HIDDEN = re.compile(f"[{HIDDEN}]")


def visible(text: str) -> str:
    """Text with every hidden character spelled out, like `\\x1b` or `\\u202e`."""
    return _HIDDEN.sub(lambda m: m[0].encode("unicode_escape", "surrogatepass").decode(), text)
