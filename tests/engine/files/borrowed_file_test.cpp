// Bytes of a file of another program, from any position to its very end, and the error if it changes.
#include "engine/files/borrowed_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "engine/files/file.h"
#include "tests/engine/files/temp_folder.h"

namespace ft {
namespace {

constexpr std::int64_t kSize = 5 * 4096 + 1234;

std::string text() {
  std::string s(kSize, '\0');
  for (std::size_t i = 0; i < s.size(); ++i) s[i] = static_cast<char>(i * 2654435761u >> 13);
  return s;
}

class BorrowedFileTest : public testing::Test {
 protected:
  BorrowedFileTest() { write_file(path_, text()); }
  std::string read(const BorrowedFile& file, std::int64_t at, std::int64_t bytes) {
    const Transfer t = file.around(at, bytes, buffer_);
    const auto mover = make_thread_mover(1);
    mover->start(0, t);
    EXPECT_EQ(mover->wait(), 0);
    file.check();
    return {reinterpret_cast<const char*>(buffer_) + (at - t.at), static_cast<std::size_t>(bytes)};
  }
  test::TempFolder folder_;
  std::string path_ = folder_ / "weights";
  alignas(4096) std::byte buffer_[8 * 4096];
};

TEST_F(BorrowedFileTest, ReadsAnyRange) {
  const BorrowedFile file(path_, InputFile(path_).state());
  const std::string all = text();
  for (const std::int64_t at : {0, 1, 511, 4095, 4096, 4097, 5 * 4096, 5 * 4096 + 1200})
    for (const std::int64_t bytes : {1, 4, 4096, 4099, 12345}) {
      const std::int64_t n = std::min(bytes, kSize - at);
      EXPECT_TRUE(read(file, at, n) == all.substr(static_cast<std::size_t>(at), static_cast<std::size_t>(n)))
          << at << " " << n;
    }
}

TEST_F(BorrowedFileTest, AChangedFileIsRefused) {
  const FileState was = InputFile(path_).state();
  const BorrowedFile file(path_, was);
  const std::string changed = path_ + ": has changed since this run opened it";
  std::filesystem::resize_file(path_, 4096);
  EXPECT_NE(test::error_of([&] { read(file, 5 * 4096, 100); }).find("the file ends there"),
            std::string::npos);
  EXPECT_NE(test::error_of([&] { read(file, 0, 100); }).find(changed), std::string::npos);
  EXPECT_NE(test::error_of([&] { BorrowedFile(path_, was); }).find(changed), std::string::npos);
  // A new file with that name does not affect the open one.
  write_file(path_, text());
  const BorrowedFile second(path_, InputFile(path_).state());
  std::filesystem::remove(path_);
  EXPECT_EQ(read(second, 77, 5), text().substr(77, 5));
  EXPECT_NE(test::error_of([&] { BorrowedFile(path_, was); }).find("weights: cannot be read: No such file"),
            std::string::npos);
}

}  // namespace
}  // namespace ft
