"""What ./dev demo prints of a stream, and when it says that the demonstration failed."""
import contextlib
import http.server
import io
import pathlib
import shutil
import sys
import threading
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tools/dev/client"))
import print_stream  # noqa: E402


def shown(*lines: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = print_stream.show(line.encode() + b"\n" for line in lines)
    return code, out.getvalue(), err.getvalue()


class PrintStreamTest(unittest.TestCase):
    def test_text_and_speed_of_a_complete_stream(self):
        code, out, _ = shown('data: {"choices":[{"delta":{"role":"assistant"}}]}', "",
                             'data: {"choices":[{"delta":{"content":"Par"}}]}', "",
                             'data: {"choices":[{"delta":{"content":"is"}}]}',
                             'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}', "data: [DONE]")
        self.assertEqual(code, 0)
        self.assertIn("Paris\n", out)
        self.assertIn("7 prompt tokens, 2 in the answer", out)

    def test_a_refusal_is_shown_and_fails(self):
        code, _, err = shown('{"error": {"message": "no such model"}}')
        self.assertEqual(code, 1)
        self.assertIn("no such model", err)

    def test_an_error_in_the_middle_is_no_answer(self):
        code, _, err = shown('data: {"choices":[{"delta":{"content":"Par"}}]}', 'data: {"error": {"message": "step failed"}}')
        self.assertEqual(code, 1)
        self.assertIn("step failed", err)

    def test_a_stream_without_text_fails(self):
        self.assertEqual(shown("data: [DONE]")[0], 1)

    def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(self):
        proxy = unittest.mock.patch.dict("os.environ", {"http_proxy": "http://127.0.0.1:9", "no_proxy": ""})
        with proxy, OneEventServer() as port:
            for curl in {shutil.which("curl"), None}:
                with unittest.mock.patch.object(print_stream.shutil, "which", return_value=curl):
                    lines = list(print_stream.request_lines(f"http://127.0.0.1:{port}/v1", "{}"))
                self.assertEqual(lines, [b"data: {}\n"], curl)


class OneEventServer:
    """A server on loopback whose every answer is one event; the value is its port."""

    def __enter__(self) -> int:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):  # noqa: N802, the name is http.server's
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"data: {}\n")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        return self.server.server_address[1]

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


if __name__ == "__main__":
    unittest.main()
