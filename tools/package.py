"""Copies the program and the libraries that it needs into one relocatable folder.

usage: package.py BUILD_FOLDER VENV FOLDER

bin/pome finds lib/ through $ORIGIN or @loader_path. On Linux lib/ holds MLX and every shared library that a minimal
system may lack; glibc and the compiler's runtime stay outside. On macOS it holds MLX, its Metal library and what
Homebrew brought.
"""
import pathlib
import re
import shutil
import subprocess
import sys

# Part of every Linux that runs the program.
SYSTEM = re.compile(r"^(ld-linux|lib(c|m|dl|rt|pthread|resolv|stdc\+\+|gcc_s))[-.]|linux-vdso")


def output_of(*command: str | pathlib.Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def run(*command: str | pathlib.Path) -> None:
    subprocess.run(command, check=True)


def linux_libraries(program: pathlib.Path) -> dict[str, pathlib.Path]:
    found = re.findall(r"^\s*(\S+) => (\S+)", output_of("ldd", program), re.M)
    if missing := [name for name, path in found if path == "not"]:
        sys.exit(f"the program does not find {', '.join(missing)}")
    return {name: pathlib.Path(path) for name, path in found if not SYSTEM.search(name)}


def macos_libraries(binary: pathlib.Path, seen: dict[str, pathlib.Path]) -> dict[str, pathlib.Path]:
    """Everything outside of the system, by the name under which it is loaded, and what those load."""
    for name in re.findall(r"^\s+(\S+) \(", output_of("otool", "-L", binary), re.M):
        if name.startswith(("/usr/lib/", "/System/")) or name in seen:
            continue
        path = pathlib.Path(name)
        if name.startswith(("@rpath/", "@loader_path/")):
            path = binary.parent / path.name
        if path.exists() and path.resolve() != binary.resolve():
            seen[name] = path
            macos_libraries(path, seen)
    return seen


def package_linux(program: pathlib.Path, folder: pathlib.Path) -> None:
    for name, path in linux_libraries(program).items():
        shutil.copy2(path.resolve(), folder / "lib" / name)


def package_macos(program: pathlib.Path, mlx: pathlib.Path, folder: pathlib.Path) -> None:
    target = folder / "bin/pome"
    libraries = macos_libraries(program, {"@rpath/libmlx.dylib": mlx / "lib/libmlx.dylib"})
    libraries["@rpath/libjaccl.dylib"] = mlx / "lib/libjaccl.dylib"
    binaries = [target]
    for path in libraries.values():
        if path.exists():
            binaries.append(pathlib.Path(shutil.copy2(path.resolve(), folder / "lib" / path.name)))
    for binary in binaries:
        binary.chmod(0o755)
        prefix = "@loader_path/../lib" if binary == target else "@loader_path"
        for name, path in libraries.items():
            run("install_name_tool", "-change", name, f"{prefix}/{path.name}", binary)
        run("codesign", "--force", "--sign", "-", binary)
    # MLX looks for its Metal library beside its own.
    shutil.copy2(mlx / "lib/mlx.metallib", folder / "lib/mlx.metallib")


def main() -> None:
    build, venv, folder = map(pathlib.Path, sys.argv[1:4])
    program = build / "apps/pome"
    mlx = next(venv.glob("lib/python3*/site-packages/mlx"))
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("bin", "lib"):
        (folder / name).mkdir(parents=True)
    # Writes the run path of CMakeLists.txt in place of the build's own.
    run("cmake", "--install", build, "--prefix", folder.resolve(), "--strip")
    if sys.platform == "darwin":
        package_macos(program, mlx, folder)
    else:
        package_linux(program, folder)
    for name in ("LICENSE", "README.md", "CHANGELOG.md"):
        shutil.copy2(name, folder / name)


if __name__ == "__main__":
    main()
