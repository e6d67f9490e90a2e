"""The clients that people use, each as a function of a Request that says what came back: a Seen, or a Missed."""
import dataclasses
import json
import os
import shutil
import subprocess
import tempfile

import httpx
import openai
import requests

TIMEOUT_S = 200
CURL_MARK = "<behind the body>"


@dataclasses.dataclass
class Request:
    """`body`: bytes, a function that makes an iterator of them (sent in chunks), or None."""

    path: str
    method: str = "POST"
    headers: dict = dataclasses.field(default_factory=dict)
    body: object = None
    key: str = "none"
    unsent_by: tuple = ()  # clients that do not send such a thing


@dataclasses.dataclass
class Seen:
    status: int
    error: object  # the member "error" of the body; None: there is none
    headers: dict  # names in lower case


@dataclasses.dataclass
class Missed:
    """The client saw no reply."""

    reason: str


def whole_headers(request):
    headers = {"Authorization": f"Bearer {request.key}", **request.headers}
    if request.body is not None:
        headers.setdefault("Content-Type", "application/json")
    return headers


def error_of(text):
    try:
        return json.loads(text)["error"]
    except (ValueError, KeyError, TypeError):
        return None


def lower(headers):
    return {name.lower(): value for name, value in headers.items()}


def with_requests(url, request):
    body = request.body() if callable(request.body) else request.body
    try:
        reply = requests.request(request.method, url + request.path, headers=whole_headers(request), data=body,
                                 timeout=TIMEOUT_S)
    except requests.RequestException as error:
        return Missed(repr(error))
    return Seen(reply.status_code, error_of(reply.text), lower(reply.headers))


def with_httpx(url, request):
    body = request.body() if callable(request.body) else request.body
    try:
        reply = httpx.request(request.method, url + request.path, headers=whole_headers(request), content=body,
                              timeout=TIMEOUT_S)
    except httpx.HTTPError as error:
        return Missed(repr(error))
    return Seen(reply.status_code, error_of(reply.text), lower(reply.headers))


def with_curl(url, request):
    command = ["curl", "--silent", "--show-error", "--max-time", str(TIMEOUT_S), "--request", request.method,
               "--output", "-", "--write-out", f"{CURL_MARK}%{{http_code}} %{{header_json}}"]
    # An empty Expect takes away the one that curl sends with a large body.
    for name, value in {"Expect": "", **whole_headers(request)}.items():
        command += ["--header", f"{name}: {value}"]
    pipe = None
    with tempfile.NamedTemporaryFile() as file:
        if callable(request.body):
            command += ["--header", "Transfer-Encoding: chunked", "--upload-file", "-"]
            pipe = subprocess.PIPE
        elif request.body is not None:
            file.write(request.body)
            file.flush()
            command += ["--data-binary", f"@{file.name}"]
        command.append(url + request.path)
        process = subprocess.Popen(command, stdin=pipe, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            for piece in request.body() if pipe else ():
                process.stdin.write(piece)
                process.stdin.flush()
        except BrokenPipeError:
            pass  # curl has its reply
        output, complaint = process.communicate()
    if process.returncode != 0:
        return Missed(f"curl ended with {process.returncode}: {complaint.decode(errors='replace').strip()}")
    text, _, told = output.decode(errors="replace").rpartition(CURL_MARK)
    status, _, headers = told.partition(" ")
    return Seen(int(status), error_of(text), {name: values[0] for name, values in json.loads(headers).items()})


def with_openai_python(url, request):
    body = request.body() if callable(request.body) else request.body
    client = openai.OpenAI(base_url=url, api_key=request.key, max_retries=0, timeout=TIMEOUT_S)
    options = {"headers": request.headers}
    arguments = {"cast_to": object, "options": options}
    if body is not None:
        options["headers"] = {"Content-Type": "application/json", **request.headers}
        arguments["content"] = body
    try:
        getattr(client, request.method.lower())(request.path, **arguments)
    except openai.APIStatusError as error:
        body = error.body if isinstance(error.body, dict) else None
        return Seen(error.status_code, body, lower(error.response.headers))
    except openai.APIConnectionError as error:
        return Missed(f"{error!r} {error.__cause__!r}")
    return Seen(200, None, {})


def with_openai_node(url, request):
    here = os.path.dirname(os.path.abspath(__file__))
    asked = {"url": url, "key": request.key, "method": request.method.lower(), "path": request.path,
             "headers": request.headers}
    with tempfile.NamedTemporaryFile() as file:
        if request.body is not None:
            file.write(request.body)
            file.flush()
            asked["bodyFile"] = file.name
        command = ["node", os.path.join(here, "_openai_node.js"), json.dumps(asked)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIMEOUT_S, check=False)
    try:
        result = json.loads(done.stdout)
    except ValueError:
        return Missed(f"node ended with {done.returncode}: {done.stderr.decode(errors='replace')[-500:]}")
    if "failure" in result:
        return Missed(result["failure"])
    return Seen(result["status"], result.get("error"), result.get("headers", {}))


CLIENTS = {"requests": with_requests, "httpx": with_httpx, "curl": with_curl, "openai-python": with_openai_python}
if shutil.which("node"):
    CLIENTS["openai-node"] = with_openai_node
else:
    print("node is not here: openai-node is left out")
