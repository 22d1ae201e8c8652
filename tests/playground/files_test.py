"""What can be said of the page without a browser. usage: files_test.py POME"""
import html.parser
import pathlib
import re
import subprocess
import sys
import unittest
import urllib.error
import urllib.request

POME = sys.argv.pop(1) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else "build/dev/apps/pome"
WEB = pathlib.Path(__file__).parents[2] / "web"
FILES = [path for path in sorted(WEB.iterdir()) if path.suffix != ".md"]
BYTES_MAX = 128 << 10  # of all files together: it is a page, not a program


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.text_of_scripts = ""
        self.ids: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] in ("script", "style"):
            self.text_of_scripts += data.strip()


class FilesTest(unittest.TestCase):
    def setUp(self):
        self.page = Page()
        self.page.feed((WEB / "index.html").read_text())

    def test_nothing_is_inline(self):
        self.assertEqual(self.page.text_of_scripts, "")
        for tag, attributes in self.page.tags:
            self.assertNotEqual(tag, "style")
            for name in attributes:
                self.assertFalse(name == "style" or name.startswith("on"), f"<{tag} {name}>")

    def test_the_page_names_only_files_that_are_there(self):
        for _tag, attributes in self.page.tags:
            for name in ("src", "href"):
                address = attributes.get(name, "")
                if address.startswith("/playground/"):
                    self.assertTrue((WEB / address.removeprefix("/playground/")).is_file(), address)
                else:
                    self.assertTrue(address == "" or address.startswith("#"), address)

    def test_no_file_names_another_host_or_makes_markup_of_text(self):
        for path in FILES:
            text = path.read_text()
            hosts = set(re.findall(r"(?:https?:)?//([\w.-]+\.\w+)", text)) - {"www.w3.org"}
            self.assertEqual(hosts, set(), path.name)
            for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function",
                         "@import", "url("):
                self.assertNotIn(word, text, path.name)

    def test_modules_import_only_files_that_are_there(self):
        for path in WEB.glob("*.js"):
            for name in re.findall(r"from '([^']+)'", path.read_text()):
                self.assertTrue(name.startswith("./") and (WEB / name).is_file(), f"{path.name}: {name}")

    def test_ids_are_there_once_and_scripts_know_no_others(self):
        self.assertEqual(len(self.page.ids), len(set(self.page.ids)))
        for path in WEB.glob("*.js"):
            for name in re.findall(r"byId\('([\w-]+)'\)", path.read_text()):
                self.assertIn(name, self.page.ids, path.name)

    def test_the_files_stay_small(self):
        self.assertLessEqual(sum(path.stat().st_size for path in FILES), BYTES_MAX)
        for path in FILES:
            self.assertLessEqual(len(path.read_text().splitlines()), 250, path.name)


class ServedTest(unittest.TestCase):
    def test_the_program_serves_the_files_as_they_are(self):
        command = [POME, "serve", "--model-path", "echo", "--port", "0"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait, 30)
        self.addCleanup(process.terminate)
        address = ""
        while not address:
            line = process.stdout.readline()
            self.assertTrue(line, "pome serve ended")
            address = "".join(re.findall(r"ready +(http\S+)", line))
        for path in FILES:
            is_page = path.name == "index.html"
            request = urllib.request.Request(address + ("/" if is_page else f"/playground/{path.name}"),
                                             headers={"Accept": "text/html" if is_page else "*/*"})
            with urllib.request.urlopen(request, timeout=10) as reply:
                self.assertEqual(reply.read(), path.read_bytes(), path.name)
        with self.assertRaises(urllib.error.HTTPError) as absent:
            urllib.request.urlopen(address + "/playground/README.md", timeout=10)
        absent.exception.close()


if __name__ == "__main__":
    unittest.main()
