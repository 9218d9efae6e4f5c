"""What a schema registry answers, by Confluent's protocol, on a real socket:
a stand-in, as no registry is a Python package."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web


class RegistryStub:
    """`schemas`: by id. `subjects`: the id of the newest schema of each. `status`: answers all with it, if it is not
    200. `broken`: schemas that are answered with 500. `hold`: what every answer waits for."""

    def __init__(self) -> None:
        self.schemas: dict[int, dict[str, object]] = {}
        self.subjects: dict[str, int] = {}
        self.status = 200
        self.broken: set[int] = set()
        self.hold: asyncio.Event | None = None
        self.asked: list[str] = []
        self.login: str | None = None
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.raw_path)
        if self.hold is not None:
            await self.hold.wait()
        if self.login is not None and request.headers.get("Authorization") != self.login:
            return web.json_response({"error_code": 401, "message": "Unauthorized"}, status=401)
        if self.status != 200:
            return web.json_response({"error_code": self.status}, status=self.status)
        if (subject := request.match_info.get("subject")) is not None:
            number = self.subjects.get(subject, 0)
            found = {"subject": subject, "id": number, "version": 1}
        else:
            number, found = int(request.match_info["number"]), {}
        if number in self.broken:
            return web.json_response({"error_code": 50001}, status=500)
        if number not in self.schemas:
            return web.json_response({"error_code": 40403, "message": "Schema not found"}, status=404)
        return web.json_response({**found, **self.schemas[number]})


@asynccontextmanager
async def registry(
    user: str = "", password: str = "", *, stub: RegistryStub | None = None
) -> AsyncIterator[RegistryStub]:
    stub = stub or RegistryStub()
    if user:
        stub.login = f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"
    app = web.Application()
    app.router.add_get("/schemas/ids/{number}", stub.answer)
    app.router.add_get("/subjects/{subject}/versions/latest", stub.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    stub.url = f"http://{host}:{port}"
    try:
        yield stub
    finally:
        await runner.cleanup()
