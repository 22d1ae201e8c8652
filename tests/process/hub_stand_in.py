"""A Hugging Face hub and a package index on loopback, with faults to order."""
import base64
import dataclasses
import hashlib
import http.server
import io
import json
import threading
import urllib.parse
import zipfile


@dataclasses.dataclass
class Repo:
    files: dict[str, bytes]
    commit: str = "0123456789abcdef0123456789abcdef01234567"
    token: str = ""          # needed to see it
    gated: bool = False      # the token has not accepted the terms
    lfs: tuple[str, ...] = (".safetensors", ".gguf")


def git_sha1(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def wheel(entries: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return out.getvalue()


class StandIn:
    """`faults` maps a file's name to a list; each download of it takes the first one: ("cut", n) sends n bytes and hangs
    up, ("stall", n) sends n bytes and waits until the other side hangs up, ("corrupt",) flips one, ("status", code), ("no_range",) ignores Range."""

    def __init__(self):
        self.repos: dict[str, Repo] = {}
        self.packages: dict[str, dict[str, bytes]] = {}  # package to file name to content
        self.faults: dict[str, list[tuple]] = {}
        self.requests: list[tuple[str, str, dict[str, str]]] = []  # method, path, headers
        self.html_index = False
        self.index_user = ""  # "user:password"
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                outer.requests.append(("GET", self.path, {k.lower(): v for k, v in self.headers.items()}))
                try:
                    outer.answer(self)
                except ConnectionError:
                    self.close_connection = True  # a pull that was stopped

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def downloads(self, name: str) -> list[dict[str, str]]:
        """The headers of each request for the bytes of a file."""
        return [headers for _, path, headers in self.requests
                if urllib.parse.unquote(path).endswith("/" + name) and path.startswith(("/cdn/", "/files/"))]

    # -- answers ---------------------------------------------------------------------------------------------------

    def send(self, handler, status: int, body: bytes = b"", **headers: str):
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    def answer(self, handler):
        path = urllib.parse.unquote(urllib.parse.urlsplit(handler.path).path)
        parts = path.strip("/").split("/")
        if parts[:2] == ["api", "models"] and len(parts) == 6:
            self.send_listing(handler, "/".join(parts[2:4]), parts[5])
        elif len(parts) > 4 and parts[2] == "resolve":
            self.redirect(handler, "/".join(parts[:2]), "/".join(parts[4:]))
        elif parts[0] == "cdn":
            self.send_bytes(handler, self.repos["/".join(parts[1:3])].files["/".join(parts[3:])], "/".join(parts[3:]))
        elif parts[0] == "simple" and len(parts) == 2:
            self.send_index(handler, parts[1])
        elif parts[0] == "files" and parts[2] in self.packages.get(parts[1], {}):
            self.send_bytes(handler, self.packages[parts[1]][parts[2]], parts[2])
        else:
            self.send(handler, 404)

    def refusal(self, handler, repo_id: str) -> bool:
        repo = self.repos.get(repo_id)
        token = handler.headers.get("Authorization", "").removeprefix("Bearer ")
        if repo is None or (repo.token and token != repo.token and not repo.gated):
            self.send(handler, 401, X_Error_Code="RepoNotFound")
            return True
        if repo.gated:
            self.send(handler, 403 if token else 401, X_Error_Code="GatedRepo")
            return True
        return False

    def send_listing(self, handler, repo_id: str, revision: str):
        if self.refusal(handler, repo_id):
            return
        repo = self.repos[repo_id]
        if revision not in ("main", repo.commit):
            self.send(handler, 404, X_Error_Code="RevisionNotFound")
            return
        siblings = []
        for name, content in repo.files.items():
            entry = {"rfilename": name, "size": len(content), "blobId": git_sha1(content)}
            if name.endswith(repo.lfs):
                entry["lfs"] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
            siblings.append(entry)
        self.send(handler, 200, json.dumps({"sha": repo.commit, "siblings": siblings}).encode())

    def redirect(self, handler, repo_id: str, name: str):
        if self.refusal(handler, repo_id):
            return
        # To another host name of this machine, as the hub sends its files from another host.
        target = f"http://localhost:{self.port}/cdn/{repo_id}/{urllib.parse.quote(name)}"
        self.send(handler, 302, Location=target)

    def send_index(self, handler, package: str):
        expected = "Basic " + base64.b64encode(self.index_user.encode()).decode()
        if self.index_user and handler.headers.get("Authorization") != expected:
            self.send(handler, 401)
            return
        files = self.packages.get(package)
        if files is None:
            self.send(handler, 404)
            return
        if self.html_index:
            links = "".join(f'<a href="../../files/{package}/{n}#sha256={hashlib.sha256(c).hexdigest()}">{n}</a>'
                            for n, c in files.items())
            self.send(handler, 200, links.encode(), Content_Type="text/html")
            return
        listed = [{"filename": n, "url": f"/files/{package}/{n}", "size": len(c),
                   "hashes": {"sha256": hashlib.sha256(c).hexdigest()}} for n, c in files.items()]
        self.send(handler, 200, json.dumps({"files": listed}).encode(),
                  Content_Type="application/vnd.pypi.simple.v1+json")

    def send_bytes(self, handler, content: bytes, name: str):
        waiting = self.faults.get(name, [])
        fault = waiting.pop(0) if waiting else ()
        if fault and fault[0] == "status":
            self.send(handler, fault[1])
            return
        if fault and fault[0] == "corrupt":
            content = content[:-1] + bytes([content[-1] ^ 1])
        begin = 0
        wanted = handler.headers.get("Range", "")
        if wanted.startswith("bytes=") and not (fault and fault[0] == "no_range"):
            begin = int(wanted[6:].split("-")[0])
        if begin >= len(content) and begin:
            self.send(handler, 416)
            return
        handler.send_response(206 if begin else 200)
        if begin:
            handler.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        handler.send_header("Content-Length", str(len(content) - begin))
        handler.end_headers()
        end = fault[1] if fault and fault[0] in ("cut", "stall") else len(content)
        handler.wfile.write(content[begin:max(begin, end)])
        if fault and fault[0] == "stall":
            handler.wfile.flush()
            handler.connection.recv(1)
        if fault and fault[0] == "cut":
            handler.close_connection = True


def tiny_safetensors(weights: int = 70_000) -> bytes:
    header = json.dumps({"a": {"dtype": "U8", "shape": [weights], "data_offsets": [0, weights]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(i * 7 % 251 for i in range(weights))


def tiny_repo(**more) -> Repo:
    return Repo({"config.json": b'{"model_type": "tiny"}', "tokenizer.json": b"{}", "README.md": b"read me",
                 "model.safetensors": tiny_safetensors(), "pytorch_model.bin": b"no"}, **more)
