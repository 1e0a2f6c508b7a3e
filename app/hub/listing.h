// The files of a model or data set at a commit, as the hub's API lists them. A listing is not trusted: its
// size, names, hashes and sizes are checked.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ft::hub {

struct RemoteFile {
  std::string path;        // relative, with "/"
  std::int64_t size = -1;  // bytes; -1: the listing does not tell
  // Name of its blob: the SHA-256 of a large file, git's SHA-1 of another one, or the ETag of a mirror that
  // has neither. Empty: the listing does not tell.
  std::string hash;
};

struct Listing {
  std::string commit;  // 40 hexadecimal digits
  std::vector<RemoteFile> files;
};

inline constexpr std::size_t kMostListing = std::size_t{64} << 20;  // bytes
inline constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;   // of a file, and of all

// Parses the API's answer. `source` names it in messages. Throws UserError (input) if it is no listing, a
// name leaves the folder, or two files cannot lie beside each other.
Listing parse_listing(std::string_view text, const std::string& source);

bool is_sha1(std::string_view hash);    // 40 hexadecimal digits, lower case
bool is_sha256(std::string_view hash);  // 64
// Returns an ETag field without quotes and W/; empty unless it can be a file's name.
std::string name_of_etag(std::string_view field);

}  // namespace ft::hub
