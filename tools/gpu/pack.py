"""Packs a build for a machine that has a GPU and neither compiler nor sources: tools/gpu/run.py runs it there.

usage: pack.py --build build/dev OUT.tar.xz [--mlx WHEEL] [--only-arch 90] [--part-mb 60]

The pack holds the programs, stripped, the libraries that a minimal system may lack, the tiny golden checkpoints and
tools/gpu. A build against the wheel mlx-cpu runs with the library of mlx-cuda-13 of the same version: same headers,
same names. --mlx adds the unpacked CUDA wheel (its folder with mlx/ in it); --only-arch blanks the machine code of
other NVIDIA architectures in its library, a third of its size. --part-mb also cuts the pack into OUT.tar.xz.00, .01, …
"""
import argparse
import json
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile

import programs

ROOT = pathlib.Path(__file__).resolve().parents[2]
SYSTEM = re.compile(r"^(ld-linux|lib(c|m|dl|rt|pthread|resolv|stdc\+\+|gcc_s|mlx|blas|lapack|gfortran|quadmath)[-.]|linux-vdso)")
# What MLX's library reads at run time: its own, and the headers of kernels that it compiles when they are first used.
WHEEL = ("mlx/lib", "mlx/include", "mlx_cuda_13.libs")
FAT_MAGIC, MACHINE_CODE = 0xBA55ED50, 2


def output_of(*command: str | pathlib.Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def libraries_of(program: pathlib.Path) -> dict[str, str]:
    return {name: path for name, path in re.findall(r"^\s*(\S+) => (/\S+)", output_of("ldd", program), re.M)
            if not SYSTEM.search(name)}


def fat_binaries(library: pathlib.Path) -> tuple[int, int]:
    """Where in the file, and how many bytes."""
    row = next(line for line in output_of("readelf", "-SW", library).splitlines() if " .nv_fatbin " in line)
    place, size = (int(word, 16) for word in row.split("]")[1].split()[3:5])
    return place, size


def keep_one_architecture(library: pathlib.Path, arch: int, section: tuple[int, int]) -> None:
    """Blanks the payloads of all other fat binary entries; places and sizes stay."""
    place, size = section
    content = bytearray(library.read_bytes())
    at, end = place, place + size
    while at < end:
        if struct.unpack_from("<I", content, at)[0] != FAT_MAGIC:
            at += 8
            continue
        header, length = struct.unpack_from("<HQ", content, at + 6)
        entry, at = at + header, at + header + length
        while entry < at:
            kind, _, head, payload = struct.unpack_from("<HHIQ", content, entry)
            if (kind, struct.unpack_from("<I", content, entry + 28)[0]) != (MACHINE_CODE, arch):
                content[entry + head:entry + head + payload] = bytes(payload)
            entry += head + payload
    library.write_bytes(content)


def fill(folder: pathlib.Path, arguments: argparse.Namespace) -> None:
    for name in ("bin", "lib"):
        (folder / name).mkdir()
    found = programs.in_build(arguments.build)
    if missing := sorted((programs.TESTS | programs.OTHERS).keys() - found.keys()):
        sys.exit(f"not built in {arguments.build}: {' '.join(missing)}")
    for name, program in found.items():
        subprocess.run(["strip", "-s", "-o", folder / "bin" / name, program], check=True)
        for library, path in libraries_of(program).items():
            shutil.copy2(pathlib.Path(path).resolve(), folder / "lib" / library)
    shutil.copytree(ROOT / "tests/golden/llm", folder / "source/tests/golden/llm")
    shutil.copytree(ROOT / "src/quant/golden", folder / "source/src/quant/golden")
    shutil.copytree(ROOT / "tools/gpu", folder / "gpu", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy2(ROOT / "tools/bench/make_shape.py", folder / "gpu")
    if arguments.mlx:
        for part in WHEEL:
            shutil.copytree(arguments.mlx / part, folder / part)
        if arguments.only_arch:
            library = folder / "mlx/lib/libmlx.so"
            keep_one_architecture(library, arguments.only_arch, fat_binaries(library))
    dirty = "+" if output_of("git", "-C", ROOT, "status", "--porcelain", "-uno").strip() else ""
    (folder / "pack.json").write_text(json.dumps({
        "commit": output_of("git", "-C", ROOT, "rev-parse", "--short=12", "HEAD").strip() + dirty,
        "source": str(ROOT), "only_arch": arguments.only_arch}, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--mlx", type=pathlib.Path)
    parser.add_argument("--only-arch", type=int, default=0)
    parser.add_argument("--part-mb", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        fill(folder, arguments)
        with tarfile.open(arguments.out, "w:xz", preset=1) as archive:
            archive.add(folder, "pome-gpu")
    content = arguments.out.read_bytes()
    print(f"{arguments.out}: {len(content) / 1e6:.1f} MB")
    part = arguments.part_mb << 20
    for index in range(-(-len(content) // part) if part else 0):
        arguments.out.with_name(f"{arguments.out.name}.{index:02}").write_bytes(content[index * part:(index + 1) * part])


if __name__ == "__main__":
    main()
