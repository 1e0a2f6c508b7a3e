// Room on the file system of a folder, asked for before something large is written.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace ft {

// Bytes that this user may still write where the folder is, or will be. Empty: the system does not say.
std::optional<std::int64_t> free_bytes(const std::string& folder);

// Throws UserError (storage) when there is less than `bytes`. what: the name of the file or folder, for the
// message.
void require_room(const std::string& folder, std::int64_t bytes, const std::string& what);

}  // namespace ft
