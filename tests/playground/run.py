"""Runs the journeys in the environment that ./dev setup made. usage: run.py POME SCRIPTED_SERVER [pytest's flags]"""
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
SKIPPED = 77
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MAC = "Applications/Google Chrome.app/Contents/MacOS/Google Chrome"


def browser() -> str | None:
    if named := os.environ.get("POME_TEST_BROWSER"):
        return named
    on_path = [path for name in NAMES if (path := shutil.which(name))]
    apps = [str(folder / MAC) for folder in (pathlib.Path("/"), pathlib.Path.home()) if (folder / MAC).exists()]
    return next((path for path in on_path + apps if starts(path)), None)


def starts(path: str) -> bool:
    """Some systems have a stand-in of the name that only asks for another package."""
    return subprocess.run([path, "--version"], capture_output=True, check=False).returncode == 0


python = os.environ.get("POME_TEST_PYTHON", str(ROOT / ".venv-tests/bin/python"))
ready = pathlib.Path(python).exists() and subprocess.run(
    [python, "-c", "import axe_playwright_python, playwright, pytest"], capture_output=True, check=False).returncode == 0
if not ready:
    print("the packages of tests/playground/requirements.txt are not there: run './dev setup tests'")
    sys.exit(SKIPPED)
found = browser()
if found is None:
    print("no browser for the playground's journeys: install Chromium or Google Chrome, or set POME_TEST_BROWSER")
    sys.exit(SKIPPED)
pome, scripted, flags = sys.argv[1], sys.argv[2], sys.argv[3:]
command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "python_files=test_*.py", "-rs", *flags,
           str(HERE)]
more = {"POME": pome, "POME_SCRIPTED_SERVER": scripted, "POME_TEST_BROWSER": found}
sys.exit(subprocess.run(command, env=os.environ | more, check=False).returncode)
