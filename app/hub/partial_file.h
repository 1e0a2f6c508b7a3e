// A file that grows at its end and gets its name when it is complete. If the process dies, the part
// remains, and the next process continues it. Where locks do not exclude, several processes may write one
// part: they write the same bytes, or each its own after restart().
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>

namespace ft::hub {

class PartialFile {
 public:
  // Opens the part, or begins an empty one. Throws UserError (storage), as all its functions do.
  explicit PartialFile(std::filesystem::path part);
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;
  ~PartialFile();

  std::int64_t size() const { return size_; }  // bytes
  void append(std::string_view bytes);
  // Begins a new, empty part in place of the old one, which another process may still write or have named.
  void restart();
  // Calls `take` with the contents, in pieces.
  void read(const std::function<void(std::string_view)>& take) const;
  // Makes the contents durable and renames the part to `complete`. If another process has replaced or renamed
  // the part: does nothing if `complete` has as many bytes, else throws.
  void commit(const std::filesystem::path& complete);

 private:
  bool is_own() const;
  [[noreturn]] void fail(int error) const;
  [[noreturn]] void fail_beside_another() const;

  std::filesystem::path part_;
  std::int64_t size_ = 0;
  int fd_ = -1;
};

}  // namespace ft::hub
