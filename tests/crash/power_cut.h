// The states of a disk after a power cut, by two models of a file system.
//
// `loose` promises what POSIX promises, and no more:
//   - fsync of a file: its bytes and its size are on the disk; not its name. fdatasync: the same.
//   - fsync of a folder: its names are on the disk. A rename belongs to the folder of its new name.
//   - sync: everything is on the disk.
//   - Each other step before the cut may have reached the disk or not, in any subset, except that the steps
//     of a rename (old name gone, new name there) come together, and that a write is torn: each sector of 512
//     bytes for itself has its new bytes or its old ones (zeros where the file had none).
// `ordered` is a journaling file system such as ext4 with data=ordered and delayed allocation:
//   - Names and truncations reach the disk in their order: the steps up to one of them.
//   - fsync of any file or folder brings all names and truncations before it to the disk; and the file's
//     bytes. fdatasync brings the file's bytes and size only.
//   - The bytes of each file reach the disk in the order of its writes, up to a page of 4096 bytes, at any
//     time: a file that was renamed without fsync may be empty.
// Writes by io_uring are recorded when they are submitted, and a fsync by io_uring promises nothing.
// After: Pillai et al., All File Systems Are Not Created Equal (ALICE), OSDI 2014; Mohan et al., CrashMonkey,
// OSDI 2018; POSIX.1-2017, fsync and rename.
#pragma once
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/crash/disk.h"

namespace ft::test {

enum class FileSystem : std::uint8_t { loose, ordered };

inline constexpr std::int64_t kSector = 512, kPage = 4096;

// Steps before the cut that no sync brought to the disk, with true for each part that reached it: the sectors
// of a write, or a single value for another step. Steps that are missing here did not reach it.
using Survivors = std::map<std::size_t, std::vector<bool>>;

struct PowerCut {
  FileSystem system = FileSystem::loose;
  std::size_t at = 0;  // number of steps before the cut
  Survivors survivors;
  std::string text;  // for messages: "loose, after 12 steps, a subset"
};

// Returns the steps before `cut` that the file system may have lost.
std::vector<std::size_t> unsynced(const Recording&, std::size_t cut, FileSystem);
// Returns the disk of a cut.
Disk disk_after(const Recording&, const PowerCut&);
// Returns the disk with all steps before `cut`.
Disk disk_after_all(const Recording&, std::size_t cut);

// Makes `count` cuts of a recording. A seed always gives the same ones.
std::vector<PowerCut> power_cuts(const Recording&, int count, std::uint32_t seed);

}  // namespace ft::test
