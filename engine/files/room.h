// Free space on a folder's file system, checked before something large is written.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace ft {

// Returns the bytes that this user may still write at a folder, which need not exist yet. Empty: unknown.
std::optional<std::int64_t> free_bytes(const std::string& folder);

// Throws UserError (config) if this process may not write files into the folder, or cannot make it.
void require_writable(const std::string& folder, const std::string& setting);

// Throws UserError (storage) if fewer than `bytes` are free. what: the name of the file or folder, for the
// message.
void require_room(const std::string& folder, std::int64_t bytes, const std::string& what);

}  // namespace ft
