"""What a service is asked with: checked before it is used, and hidden wherever somebody quotes it."""

from __future__ import annotations

import base64
import re

import httpx2

from gitteam.errors import BadInput

_HIDDEN = "[secret]"
_STAND_IN = 8  # characters: a shorter one may be a word, like `x` for a server that asks for no key


def checked_key(key: str, name: str) -> str | None:
    key = key.strip()
    if not key.isascii() or not key.isprintable():
        raise BadInput(f"{name} is no key: it has characters that no key has")
    return key or None


def is_url(text: str) -> bool:
    try:
        url = httpx2.URL(text)
    except (httpx2.InvalidURL, ValueError):
        return False
    return url.scheme in ("http", "https") and bool(url.host)


def without_userinfo(url: object) -> str:
    """An address to be shown, a mistyped one too: nothing of what may be a name and a password."""
    before, _, rest = str(url).rpartition("@")
    scheme = re.match(r"\w+://", before)
    return f"{scheme[0] if scheme else ''}{rest}"


class Secrets:
    """The keys, and what an address has of a name and a password, in every form in which a service may quote it."""

    def __init__(self, keys: list[str | None], base_url: str | None):
        found = {key for key in keys if key} | (_userinfo(httpx2.URL(base_url)) if base_url else set())
        longest_first = sorted(found, key=len, reverse=True)  # or a part would be hidden, and the rest be shown
        self._pattern = re.compile("|".join(map(_pattern, longest_first)) or r"(?!)")

    def hide(self, text: object) -> str:
        return self._pattern.sub(_HIDDEN, str(text))


def _userinfo(url: httpx2.URL) -> set[str]:
    if not url.password:
        return {url.username} - {""}
    encoded = url.userinfo.decode("ascii", "replace")
    whole = base64.b64encode(f"{url.username}:{url.password}".encode()).decode()
    return {whole, encoded, url.password, encoded.partition(":")[2]}


def _pattern(secret: str) -> str:
    return re.escape(secret) if len(secret) >= _STAND_IN else rf"(?<!\w){re.escape(secret)}(?!\w)"
