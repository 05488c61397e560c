"""A model server on loopback with a script in place of a model, in the words of four agents' APIs.

Its script: call the tool `try` of kernelwright with a changed file, once for each file of code, then say that it is done. It
prints its port, and writes what it was asked, a JSON object a line, to a file.

    python3 model.py NAME LOG STATUS CODE...

NAME is the file of the candidate that each CODE replaces. With another STATUS than 200, such as 401, every request is
answered by it.
"""

import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

NAME, LOG, STATUS = sys.argv[1], sys.argv[2], int(sys.argv[3])
SCRIPT = [
    {"files": {NAME: Path(code).read_text(encoding="utf-8")}, "note": "by a script"} for code in sys.argv[4:]
]
# The answer of a tool, in each of the APIs.
ANSWER = re.compile(r'"type": "tool_result"|"type": "function_call_output"|"functionResponse"|"role": "tool"')


def tool(value: object, found: list[dict]) -> list[dict]:
    """Every description of kernelwright's tool `try` in a request, whatever form it has; with its namespace."""
    if isinstance(value, dict):
        name = value.get("name")
        if isinstance(name, str) and "kernelwright" in name and isinstance(value.get("tools"), list):
            found += [{"name": "try", "namespace": name} for one in value["tools"] if one.get("name") == "try"]
        elif isinstance(name, str) and name.endswith("try") and "kernelwright" in name:
            found.append({"name": name})
        for inner in value.values():
            tool(inner, found)
    elif isinstance(value, list):
        for inner in value:
            tool(inner, found)
    return found


def turn(asked: dict) -> dict | None:
    """The next call of the script, with the name that the agent has for the tool; nothing at its end."""
    tools = tool(asked, [])
    done = len(ANSWER.findall(json.dumps(asked)))
    if not tools or done >= len(SCRIPT):
        return None
    return {"id": f"call_{done}", "arguments": SCRIPT[done], **tools[0]}


def messages(call: dict | None, model: str) -> list[tuple[str | None, dict]]:
    """Anthropic's messages, as events."""
    usage = {"input_tokens": 10, "output_tokens": 5}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": []}
    head |= {"stop_reason": None, "stop_sequence": None, "usage": usage}
    if call:
        block = {"type": "tool_use", "id": call["id"], "name": call["name"], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(call["arguments"])}
    else:
        block = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": "done"}
    events = [
        {"type": "message_start", "message": head},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use" if call else "end_turn", "stop_sequence": None},
            "usage": usage,
        },
        {"type": "message_stop"},
    ]
    return [(event["type"], event) for event in events]


def responses(call: dict | None) -> list[tuple[str | None, dict]]:
    """OpenAI's responses, as events."""
    if call:
        item = {"type": "function_call", "id": "fc_" + call["id"], "call_id": call["id"], "status": "completed"}
        item |= {key: call[key] for key in ("name", "namespace") if key in call}
        item |= {"arguments": json.dumps(call["arguments"])}
    else:
        item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
        item |= {"content": [{"type": "output_text", "text": "done", "annotations": []}]}
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    events = [
        {"type": "response.created", "response": {"id": "resp_1"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": "resp_1", "usage": usage}},
    ]
    return [(event["type"], event) for event in events]


def gemini(call: dict | None) -> list[tuple[str | None, dict]]:
    """Google's generated content, as events."""
    part = {"functionCall": {"name": call["name"], "args": call["arguments"]}} if call else {"text": "done"}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    return [(None, {"candidates": [candidate], "usageMetadata": usage})]


def completions(call: dict | None, model: str) -> list[tuple[str | None, dict]]:
    """OpenAI's chat completions, as events."""
    delta: dict = {"role": "assistant"}
    if call:
        function = {"name": call["name"], "arguments": json.dumps(call["arguments"])}
        delta["tool_calls"] = [{"index": 0, "id": call["id"], "type": "function", "function": function}]
    else:
        delta["content"] = "done"
    head = {"id": "chat_1", "object": "chat.completion.chunk", "created": 0, "model": model}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    end = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if call else "stop"}
    return [
        (None, {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}),
        (None, {**head, "choices": [end], "usage": usage}),
    ]


class Handler(BaseHTTPRequestHandler):
    """One request."""

    def log_message(self, *_: object) -> None:
        """Says nothing."""

    def send(self, kind: str, body: bytes, status: int = 200) -> None:
        """Answers."""
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self) -> None:  # noqa: N802
        """Whether there is a server."""
        self.send("application/json", b"{}", STATUS)

    def do_GET(self) -> None:  # noqa: N802
        """The list of models."""
        self.send("application/json", b'{"data": [], "models": []}', STATUS)

    def do_POST(self) -> None:  # noqa: N802
        """A turn."""
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if STATUS != 200:
            return self.send("application/json", b'{"error": {"message": "refused by the script"}}', STATUS)
        asked = json.loads(body or b"{}")
        with open(LOG, "a", encoding="utf-8") as log:
            log.write(json.dumps({"path": self.path, "asked": asked}) + "\n")
        call = turn(asked)
        model = asked.get("model", "scripted")
        if self.path.startswith("/v1/messages"):
            if "count_tokens" in self.path:
                return self.send("application/json", b'{"input_tokens": 10}')
            events = messages(call, model)
        elif "responses" in self.path:
            events = responses(call)
        elif "enerateContent" in self.path:
            events = gemini(call)
            if "stream" not in self.path:
                return self.send("application/json", json.dumps(events[0][1]).encode())
        else:
            events = completions(call, model)
        lines = [(f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}\n\n" for name, data in events]
        if "completions" in self.path:
            lines.append("data: [DONE]\n\n")
        return self.send("text/event-stream", "".join(lines).encode())


def main() -> None:
    """Serves until it is ended."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


main()
