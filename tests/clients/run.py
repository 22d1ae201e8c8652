"""Runs the clients' tests in the environment that ./dev setup made. usage: run.py POME [pytest's flags]"""
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
SKIPPED = 77

python = os.environ.get("POME_TEST_PYTHON", str(ROOT / ".venv-tests/bin/python"))
ready = pathlib.Path(python).exists() and subprocess.run(
    [python, "-c", "import anthropic, ollama, openai, prometheus_client, pytest"], capture_output=True, check=False).returncode == 0
if not ready:
    print("the packages of requirements.txt are not there: run './dev setup'")
    sys.exit(SKIPPED)
pome, flags = sys.argv[1], sys.argv[2:]
command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rs", *flags, str(HERE)]
sys.exit(subprocess.run(command, env=os.environ | {"POME": pome}, check=False).returncode)
