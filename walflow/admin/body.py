"""The body of a request to the admin interface."""

from aiohttp import web


class TooLong(Exception):
    """Its text is the answer's."""


async def body_of(request: web.Request, longest: int) -> bytes:
    """All of it, in however many pieces it comes. Raises TooLong beyond so many bytes."""
    found = b""
    async for piece in request.content.iter_any():
        found += piece
        if len(found) > longest:
            raise TooLong(f"a request has at most {longest} bytes")
    return found
