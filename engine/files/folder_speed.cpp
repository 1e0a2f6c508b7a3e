#include "engine/files/folder_speed.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <new>

#include "engine/core/error.h"
#include "engine/files/scratch_file.h"

namespace ft {
namespace {

constexpr int kSlots = 8;
constexpr std::int64_t kChunk = std::int64_t{1} << 20;

// Returns the seconds until all chunks are copied.
double time_of(BlockMover& mover, const BlockFile& file, std::byte* memory, std::int64_t bytes, bool put) {
  const auto begin = std::chrono::steady_clock::now();
  std::int64_t next = 0;
  const auto start = [&](int slot) {
    mover.start(slot, {&file, next, memory + slot * kChunk, kChunk, put});
    next += kChunk;
  };
  int busy = 0;
  while (busy < kSlots && next < bytes) start(busy++);
  while (busy > 0) {
    const int slot = mover.wait();
    if (next < bytes)
      start(slot);
    else
      --busy;
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

FolderSpeed measure_folder(const std::string& folder, const std::string& setting, std::int64_t bytes,
                           MoverKind kind) {
  require(bytes >= kChunk && bytes % kChunk == 0, "whole MiB");
  const std::unique_ptr<std::byte, void (*)(void*)> memory(
      static_cast<std::byte*>(std::aligned_alloc(kFileBlock, kSlots * kChunk)), std::free);
  if (!memory) throw std::bad_alloc();
  std::fill_n(memory.get(), kSlots * kChunk, std::byte{0x5a});  // not zeros, which some disks store for free
  const ScratchFile file(folder, bytes, setting);
  const auto mover = make_block_mover(kSlots, kind, file.file());
  if (!mover) throw UserError(Exit::hardware, "this kernel or file system refuses io_uring");
  const auto speed = [&](bool put) {
    return static_cast<double>(bytes) / time_of(*mover, file.file(), memory.get(), bytes, put);
  };
  FolderSpeed s{.way = file.way(*mover)};
  s.write = speed(true);
  s.read = speed(false);
  return s;
}

}  // namespace ft
