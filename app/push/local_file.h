// A file that is sent to a hub: one of the folder, or a text that ft makes.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "app/hub/http_client.h"
#include "engine/files/safetensors/stored_bytes.h"

namespace ft::hub {

struct LocalFile {
  std::string path;  // in the repository, with "/"
  std::int64_t size = 0;
  std::filesystem::path source{};     // on the disk
  FileState state{};                  // when it was chosen
  std::optional<std::string> made{};  // the text of a file that ft makes, in place of `source`
  std::string note{};                 // shown beside it; empty: nothing
};

LocalFile made_file(std::string path, std::string text, std::string note);

// Returns the file's contents, to be read in parts. Reading throws UserError (input) if the file has changed
// since it was chosen, or cannot be read.
HttpBody contents_of(const LocalFile&);
// Returns bytes [at, at + bytes) of contents as contents.
HttpBody part_of(HttpBody whole, std::int64_t at, std::int64_t bytes);
// Returns the first `most` bytes. Throws like reading does.
std::string beginning_of(const LocalFile&, std::int64_t most);

// Takes the bytes that were hashed since the last call.
using Hashed = std::function<void(std::int64_t bytes)>;
std::string sha256_of(const LocalFile&, const Hashed& progress);
// Returns git's SHA-1 of the contents.
std::string git_hash_of(const LocalFile&);

}  // namespace ft::hub
