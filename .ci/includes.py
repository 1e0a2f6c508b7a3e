#!/usr/bin/env python3
"""Fails when a file includes what its library does not use, or when libraries use each other in a circle.

What a library uses, itself or through others, stands once: after USES in its folder's CMakeLists.txt. A folder
without a library of its own belongs to the one of the folder above; a library of some SOURCES owns these files alone.
Third-party headers are confined to the folders and files below, so that each can be replaced in one place.
"""
import graphlib, re, subprocess, sys
from pathlib import Path

POSIX = re.compile(r"^(sys/|netinet/|arpa/)|^(fcntl|unistd|sched|glob|netdb|time|signal|poll|dirent|pthread|dlfcn|ifaddrs|termios|net/if)\.h$")
THIRD_PARTY = {
    "app": "nlohmann",
    "app/commands": "CLI",
    "app/http/http.cpp": "httplib.h",
    "app/hub/curl_library.h": "curl/curl.h",
    "app/process/confine.cpp": "linux/audit.h linux/filter.h linux/landlock.h linux/seccomp.h",
    "app/translate/yaml.cpp": "yaml.h",
    "bench": "nlohmann",
    "data": "nlohmann",
    "data/files/byte_source.cpp": "zlib.h zstd.h",
    "data/files/columnar/unpack.cpp": "brotli lz4.h lz4frame.h snappy-c.h zlib.h zstd.h",
    "data/tokenizers/regex.cpp": "pcre2.h",
    "data/tokenizers/sentencepiece_tokenizer.cpp": "sentencepiece_processor.h",
    "data/tokenizers/unicode.cpp": "utf8proc.h",
    "engine/cpu": "immintrin.h",
    "engine/cpu/onednn.cpp": "oneapi omp.h",
    "engine/cuda": "cuda_runtime.h",
    "engine/cuda/cudnn/cudnn.h": "cudnn.h",
    "engine/cuda/gemm/cublaslt.h": "cublasLt.h",
    "engine/cuda/gemm/gemm_file.cpp": "nlohmann",
    "engine/cuda/gemm/tensor_maps.cpp": "cuda.h",
    "engine/crypto": "openssl",
    "engine/files": "nlohmann openssl",
    "engine/files/uring_mover.cpp": "liburing.h",
    "engine/formats": "nlohmann",
    "engine/settings": "nlohmann",
    "engine/train": "nlohmann",
    "lora": "nlohmann",
    "lora/matching.cpp": "pcre2.h",
    "models": "nlohmann",
    "tests": "gtest nlohmann immintrin.h",
    "tests/app/cli/hardening_test.cpp": "elf.h",
    "tests/app/hub/hub_server.cpp": "httplib.h",
    "tests/engine/crypto/tls_test.cpp": "malloc.h",
    "tests/engine/cuda/nccl_abi.cpp": "nccl.h",
    "tests/engine/ranks/mac_seal_test.cpp": "malloc.h",
    "tests/crash/recorder.cpp": "linux/io_uring.h",
    "tests/crash/traced.cpp": "linux/filter.h linux/seccomp.h",
    "tests/crash/uring_ring.cpp": "linux/io_uring.h",
    "tests/fuzz/input.cpp": "sanitizer",
    "tests/life/files/file_faults.cpp": "liburing.h",
}
PROGRAMS = ("bench/", "tests/")  # may include everything


def under(name, folder):
    return name == folder or name.startswith(folder + "/")


def libraries():
    """The libraries that each uses, by name; their names by folder; and by file, where they own only some."""
    uses, of_folder, of_file = {}, {}, {}
    for cmake in subprocess.run(["git", "ls-files", "*CMakeLists.txt"], capture_output=True, text=True).stdout.split():
        folder = Path(cmake).parent
        for name, words in re.findall(r"^target_link_libraries\((ft_\w+) INTERFACE ([^)]*)\)", Path(cmake).read_text(), re.M):
            uses[name] = set(words.split())  # several libraries under one name
        for kind, words in re.findall(r"^ft_(library|room)\(([^)]*)\)", Path(cmake).read_text(), re.M):
            parts = re.split(r"\b(FOLDERS|SOURCES|USES)\b", words)
            given = {key: value.split() for key, value in zip(parts[1::2], parts[2::2])}
            name = parts[0].strip() if kind == "library" else f"ft_app_{parts[0].strip()}"
            uses[name] = {word for word in given.get("USES", []) if word.startswith("ft_")}
            for inside in [parts[0].strip()] if kind == "room" else given.get("FOLDERS", ["."]):
                of_folder[str(folder / inside)] = name
            for source in given.get("SOURCES", []):
                if source.endswith(".cpp"):
                    of_file[str(folder / source)[:-4]] = name
    of_folder["engine/cpu/kernels"] = "ft_cpu_kernels"  # one of objects for each instruction set
    return uses, of_folder, of_file


def closure(name, uses):
    seen, ahead = set(), [name]
    while ahead:
        at = ahead.pop()
        if at not in seen:
            seen.add(at)
            ahead += uses.get(at, ())
    return seen


def owner(name, of_folder, of_file):
    if found := of_file.get(str(Path(name).with_suffix(""))):
        return found
    return next((of_folder[str(folder)] for folder in Path(name).parents if str(folder) in of_folder), None)


def allowed_third_party(name, header):
    return any(under(header, word) for place, words in THIRD_PARTY.items() if under(name, place) for word in words.split())


def main():
    uses, of_folder, of_file = libraries()
    if len(uses) < 30:
        sys.exit("CMakeLists.txt: no libraries with USES")
    try:
        graphlib.TopologicalSorter(uses).prepare()
    except graphlib.CycleError as error:
        sys.exit("CMakeLists.txt: libraries use each other in a circle: " + " -> ".join(error.args[1][::-1]))
    reach = {name: closure(name, uses) for name in uses}
    faults = 0
    files = subprocess.run(["git", "ls-files", "*.h", "*.cpp", "*.cu", "*.cuh"], capture_output=True, text=True).stdout.split()
    for file in files:
        mine = owner(file, of_folder, of_file)
        for number, line in enumerate(Path(file).read_text().splitlines(), 1):
            include = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
            if not include:
                continue
            name = include[2]
            if include[1] == '"':
                theirs = owner(name, of_folder, of_file)
                ok = Path(name).exists() and (file.startswith(PROGRAMS) or mine is None or theirs in reach[mine])
            else:
                ok = ("/" not in name and "." not in name) or POSIX.search(name) or allowed_third_party(file, name)
            if not ok:
                print(f"{file}:{number}: {mine} may not include {name}")
                faults += 1
    if faults:
        sys.exit(1)
    print(f"check    include directions of {len(files)} files in {len(uses)} libraries, no circle")


main()
