"""`python -m bench.handler PORT`: an aiohttp handler that reads a body and answers, on uvloop. Until it is killed."""

import asyncio
import sys

import uvloop
from aiohttp import web


async def handle(request: web.Request) -> web.Response:
    await request.read()
    return web.Response(body=b'{"events":1}\n', content_type="application/json")


async def main(port: int) -> None:
    app = web.Application()
    app.router.add_post("/", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, backlog=1024).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
