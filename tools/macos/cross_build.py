"""Compiles all C++ for arm64 macOS on Linux and links it against the real MLX library for Metal.

usage: cross_build.py ZIGLANG_VERSION MLX_VERSION [TARGET…]

PyPI's ziglang is the compiler, the wheel mlx-metal the library; both are kept in build/macos. Third-party headers
come from /usr/include, through a folder that holds only them. It runs nothing: what it shows is that the code for
the target compiles, and that every name it uses of MLX is one that the library exports. Kernel texts in Metal's
language are compiled against a stand-in (metal_texts.py).
"""
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import metal_texts
import symbols

ROOT = pathlib.Path(__file__).parents[2].resolve()
FOLDER = ROOT / "build/macos"
TARGET = "aarch64-macos.14.0"
# Header folders and files of the libraries in cmake/deps.cmake.
LIBRARIES = ("boost", "fmt", "spdlog", "CLI", "prometheus", "hwy", "openssl", "yaml-cpp")


def fetch(package: str, version: str, platform: str, folder: pathlib.Path) -> None:
    stamp = folder / f".{version}"
    if stamp.exists():
        return
    print(f"    fetching {package} {version}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    wheels = FOLDER / "wheels"
    subprocess.run([ROOT / ".venv/bin/python", "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
                    "--no-deps", "--only-binary=:all:", *platform.split(), "-d", wheels, f"{package}=={version}"],
                   check=True)
    with zipfile.ZipFile(next(wheels.glob(f"{package.replace('-', '_')}-{version}*.whl"))) as archive:
        archive.extractall(folder)
    stamp.touch()


def link_headers() -> None:
    include = FOLDER / "include"
    shutil.rmtree(include, ignore_errors=True)
    include.mkdir(parents=True)
    machine = pathlib.Path(f"/usr/include/{os.uname().machine}-linux-gnu")
    for name in LIBRARIES:
        source = pathlib.Path("/usr/include") / name
        if not source.exists():
            sys.exit(f"the headers of {name} are not in /usr/include: run './dev setup'")
        if name != "openssl":
            (include / name).symlink_to(source)
            continue
        # OpenSSL keeps its configuration per processor.
        (include / name).mkdir()
        for folder in (source, machine / name):
            for header in folder.glob("*.h"):
                (include / name / header.name).symlink_to(header)


def write_tools() -> None:
    zig = FOLDER / "zig/ziglang/zig"
    zig.chmod(0o755)
    tools = FOLDER / "bin"
    tools.mkdir(exist_ok=True)
    # zig's own checks of undefined behaviour would slow the compilation and change nothing that we look at.
    for name, words in {"c++": f"c++ -target {TARGET} -fno-sanitize=all", "cc": f"cc -target {TARGET}",
                        "ar": "ar", "ranlib": "ranlib"}.items():
        (tools / name).write_text(f'#!/bin/sh\nexec "{zig}" {words} "$@"\n')
        (tools / name).chmod(0o755)
    (tools / "true").unlink(missing_ok=True)
    (tools / "true").symlink_to(shutil.which("true"))


def tools_environment() -> dict[str, str]:
    return os.environ | {"ZIG_GLOBAL_CACHE_DIR": str(FOLDER / "zig-cache"), "CCACHE_DISABLE": "1"}


def build(targets: list[str]) -> None:
    output = FOLDER / "build"
    environment = tools_environment()
    if not (output / ".configured").exists():
        subprocess.run(["cmake", "-G", "Ninja", "-S", ROOT, "-B", output, "--log-level=WARNING",
                        f"-DCMAKE_TOOLCHAIN_FILE={ROOT}/tools/macos/toolchain.cmake", f"-DPOME_MACOS_DIR={FOLDER}",
                        "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O0", "-DPOME_BUILD_TESTS=OFF",
                        "-DCMAKE_CXX_COMPILER_LAUNCHER=env",
                        "-DCMAKE_EXE_LINKER_FLAGS=-Wl,-undefined,dynamic_lookup"], check=True, env=environment)
        (output / ".configured").touch()
    # Without a terminal ninja prints one line a file; only failures are of interest.
    done = subprocess.run(["ninja", "-C", output, "-k", "0", *targets], env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        start = max(done.stdout.find("FAILED:"), 0)
        sys.exit(done.stdout[start:start + 8000] + done.stderr[-2000:])


def main() -> None:
    zig_version, mlx_version, *targets = sys.argv[1:]
    FOLDER.mkdir(parents=True, exist_ok=True)
    fetch("ziglang", zig_version, "", FOLDER / "zig")
    fetch("mlx-metal", mlx_version, "--platform macosx_15_0_arm64 --python-version 3.12", FOLDER / "metal")
    mlx = FOLDER / "mlx"
    mlx.unlink(missing_ok=True)
    mlx.symlink_to("metal/mlx")
    link_headers()
    write_tools()
    if wrong := metal_texts.faults([FOLDER / "bin/c++"], ROOT, tools_environment()):
        sys.exit("\n".join(wrong))
    build(targets)
    program = FOLDER / "build/apps/pome"
    if targets and not program.exists():
        return
    faults = symbols.faults(program, mlx / "lib/libmlx.dylib", ROOT / "src/bridge/pome_bridge.h")
    for fault in faults:
        print(fault)
    if faults:
        sys.exit(f"{len(faults)} names that nothing on a Mac would supply")
    print("    arm64 macOS: compiled, linked, every MLX name resolves")


if __name__ == "__main__":
    main()
