"""A small client on the Python SDK of the protocol.

It starts an agent, sends one prompt, and serves files and permission. Arguments: the agent,
its arguments, and the prompt.
"""

import asyncio
import os
import signal
import sys

from acp import PROTOCOL_VERSION, RequestError, spawn_agent_process, text_block
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    FileSystemCapabilities,
    Implementation,
    ReadTextFileResponse,
    RequestPermissionResponse,
    WriteTextFileResponse,
)


class Client:
    """The side of the protocol that answers the agent."""

    cancelled = False

    def on_connect(self, conn):
        pass

    async def request_permission(self, session_id, tool_call, options, **kwargs):
        if self.cancelled:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=options[0].option_id))

    async def session_update(self, session_id, update, **kwargs):
        pass

    async def read_text_file(self, session_id, path, line=None, limit=None, **kwargs):
        try:
            with open(path, encoding="utf-8", newline="") as f:
                text = f.read()
        except (OSError, UnicodeError) as e:
            raise RequestError.internal_error({"reason": str(e)}) from e
        if line is not None or limit is not None:
            start = (line or 1) - 1
            lines = text.splitlines(keepends=True)
            text = "".join(lines[start : None if limit is None else start + limit])
        return ReadTextFileResponse(content=text)

    async def write_text_file(self, session_id, path, content, **kwargs):
        with open(path, "w", encoding="utf-8", newline="") as f:
            f.write(content)
        return WriteTextFileResponse()

    async def ext_method(self, method, params):
        raise RequestError.method_not_found(method)

    async def ext_notification(self, method, params):
        pass


async def main():
    args = sys.argv[1:]
    flags = {}
    while args and args[0].startswith("--"):
        name = args.pop(0)
        flags[name] = args.pop(0)
    prompt = args.pop()
    client = Client()
    async with spawn_agent_process(client, args[0], *args[1:], transport_kwargs={"stderr": None}) as (conn, process):
        session = None
        loop = asyncio.get_running_loop()

        def cancel():
            client.cancelled = True
            loop.create_task(conn.cancel(session_id=session))

        loop.add_signal_handler(signal.SIGINT, cancel)
        answer = await conn.initialize(
            protocol_version=PROTOCOL_VERSION,
            client_capabilities=ClientCapabilities(fs=FileSystemCapabilities(read_text_file=True, write_text_file=True)),
            client_info=Implementation(name="python-sdk-client", version="1.0.0"),
        )
        if answer.protocol_version != PROTOCOL_VERSION:
            raise SystemExit(f"the agent speaks version {answer.protocol_version}")
        if "--login" in flags:
            await conn.authenticate(method_id=flags["--login"])
        if "--load" in flags:
            session = flags["--load"]
            await conn.load_session(cwd=os.getcwd(), session_id=session, mcp_servers=[])
        else:
            session = (await conn.new_session(cwd=os.getcwd(), mcp_servers=[])).session_id
        if "--mode" in flags:
            await conn.set_session_mode(session_id=session, mode_id=flags["--mode"])
        if "--option" in flags:
            await conn.set_config_option(session_id=session, config_id=flags["--option"], value=flags["--value"])
        result = await conn.prompt(session_id=session, prompt=[text_block(prompt)])
        return 0 if result.stop_reason == "end_turn" else 1


sys.exit(asyncio.run(main()))
