#!/usr/bin/env python3
"""Packs the archive's folder as a wheel, with which `pip install FILE` gives the command ft: the program itself, which
runs without Python, and its libraries in lib/ft of the environment.

    .ci/wheel.py FOLDER      writes FOLDER's files as ft-VERSION-py3-none-manylinux_*.whl beside it, and tries it
"""
import base64, csv, hashlib, io, os, platform, re, subprocess, sys, tempfile, venv, zipfile
from pathlib import Path

SUMMARY = "fine-tunes language models: LoRA, QLoRA and full; the program runs without Python"
DATE = (1980, 1, 1, 0, 0, 0)  # the same files give the same wheel


def tag():
    """The platform that pip compares with its own: this machine's C library, or a later one."""
    libc, version = os.confstr("CS_GNU_LIBC_VERSION").split()
    major, minor = version.split(".")[:2]
    return f"py3-none-manylinux_{major}_{minor}_{platform.machine()}"


def contents(folder):
    """(path below the folder, file) of each file once: a library under the name by which programs ask for it."""
    targets = {p.resolve() for p in folder.rglob("*") if p.is_symlink()}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and (path.is_symlink() or path.resolve() not in targets):
            yield path.relative_to(folder), path


def place_of(path, data, info):
    """The place in the wheel of a file of the folder; None: it has none there."""
    top = path.parts[0]
    if top == "bin":
        return f"{data}/scripts/{path.name}"
    if top in ("lib", "share"):
        return f"{data}/data/{path}"
    if top in ("licenses", "LICENSE"):
        return f"{info}/licenses/{path.name}"
    return None


def metadata(version, readme):
    return (f"Metadata-Version: 2.1\nName: ft\nVersion: {version}\nSummary: {SUMMARY}\n"
            f"Description-Content-Type: text/markdown\n\n{readme}")


def write(folder, version):
    name, data, info = f"ft-{version}-{tag()}", f"ft-{version}.data", f"ft-{version}.dist-info"
    wheel = folder.parent / f"{name}.whl"
    record = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        def add(place, content, mode=0o644):
            entry = zipfile.ZipInfo(place, DATE)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append((place, f"sha256={digest}", len(content)))

        for path, file in contents(folder):
            if place := place_of(path, data, info):
                add(place, file.read_bytes(), 0o755 if "/scripts/" in place else 0o644)
        add(f"{info}/METADATA", metadata(version, (folder / "README.md").read_text()).encode())
        add(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: ft\nRoot-Is-Purelib: false\nTag: {tag()}\n".encode())
        lines = io.StringIO()
        csv.writer(lines, lineterminator="\n").writerows([*record, (f"{info}/RECORD", "", "")])
        archive.writestr(zipfile.ZipInfo(f"{info}/RECORD", DATE), lines.getvalue())
    return wheel


def attempt(wheel, version):
    """Installs the wheel into a new environment, without a network, and runs it with nothing of this machine."""
    with tempfile.TemporaryDirectory() as place:
        venv.create(place, with_pip=True)
        pip = [f"{place}/bin/python", "-m", "pip", "--disable-pip-version-check", "--quiet"]
        subprocess.run([*pip, "install", "--no-index", str(wheel)], check=True)
        ft = f"{place}/bin/ft"
        said = subprocess.run(["env", "-i", ft, "--version"], capture_output=True, text=True, check=True).stdout
        if not said.startswith(f"ft {version}") or Path(ft).read_bytes()[:4] != b"\x7fELF":
            sys.exit(f"{wheel}: its command is not this program: {said}")
        needed = subprocess.run(["env", "-i", f"LD_LIBRARY_PATH={place}/lib/ft", "ldd", ft, f"{place}/lib/ft/libcurl.so.4"],
                                capture_output=True, text=True, check=True).stdout
        outside = [line.strip() for line in needed.splitlines() if "=>" in line and place not in line
                   and not re.search(r"/lib(c|m|dl|rt|pthread|resolv)\.so", line)]
        if outside:
            sys.exit(f"{wheel}: libraries from outside: {outside}")
        subprocess.run([*pip, "uninstall", "--yes", "ft"], check=True)
        left = [str(p) for p in Path(place).rglob("*") if p.name == "ft" and p.is_file()]
        if left:
            sys.exit(f"{wheel}: pip uninstall leaves {left}")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1]).absolute()
    said = subprocess.run([folder / "bin/ft", "--version"], capture_output=True, text=True, check=True).stdout
    version = said.split()[1]
    wheel = write(folder, version)
    attempt(wheel, version)
    print(f"packed   {wheel.relative_to(Path.cwd())} ({wheel.stat().st_size >> 20} MiB)")


main()
