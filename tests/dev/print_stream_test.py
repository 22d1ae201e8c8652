"""What ./dev demo prints of a stream, and when it says that the demonstration failed."""
import contextlib
import io
import pathlib
import sys
import unittest

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


if __name__ == "__main__":
    unittest.main()
