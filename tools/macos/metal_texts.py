"""Compiles every kernel text in Metal's language with a clang that knows address spaces, against a stand-in library.

It shows mistakes of C++ and pointers into the wrong kind of memory; it is not Metal's compiler.
"""
import pathlib
import subprocess
import tempfile

# A pointer to device memory that forgot so: the check must be able to fail.
WRONG = """#include <metal_stdlib>
[[kernel]] void wrong(device float* x [[buffer(0)]]) { float* y = x; *y = 0.0f; }
"""


def complaints(compiler: list[str], text: pathlib.Path, stand_in: pathlib.Path, environment: dict) -> str:
    """What the compiler says of a file; empty when it is content."""
    with tempfile.TemporaryDirectory() as folder:
        # Metal 3's language is C++14.
        done = subprocess.run([*compiler, "-std=c++14", "-pedantic", "-Wall", "-Wextra", "-Werror",
                               "-Wno-unknown-attributes", "-DPOME_METAL_ADDRESS_SPACES", f"-I{stand_in}", "-x", "c++",
                               "-c", text, "-o", pathlib.Path(folder) / "text.o"],
                              env=environment, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr or "the compiler failed without a word"


def faults(compiler: list[str], root: pathlib.Path, environment: dict) -> list[str]:
    stand_in = root / "tools/macos/metal"
    found = []
    with tempfile.TemporaryDirectory() as folder:
        wrong = pathlib.Path(folder) / "wrong.metal"
        wrong.write_text(WRONG)
        if "device float" not in complaints(compiler, wrong, stand_in, environment):
            found.append("the check of Metal texts lets a wrong address space pass")
    texts = sorted((root / "src").rglob("*.metal"))
    if not texts:
        found.append("there is no Metal text under src/")
    return found + [said for text in texts if (said := complaints(compiler, text, stand_in, environment))]
