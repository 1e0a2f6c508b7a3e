// Records each change that a command, its threads and its children make to the files below its folder, with
// the bytes, and each sync, in their order. Calls that change files run one at a time. x86-64 only.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "tests/crash/disk.h"

namespace ft::test {

// Runs `words` in `folder`, with stdout and stderr in files of these names there, which are not part of the
// disk. Recording::missed names a call whose changes are not understood, such as a write through a mapping.
Recording record(const std::vector<std::string>& words, const std::filesystem::path& folder);

}  // namespace ft::test
