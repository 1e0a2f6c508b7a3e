// The key that clients of a server need.
#pragma once
#include <string>

namespace ft {

// Reads the key from the first line of a file. Throws UserError (config) if it is empty or has white space or
// characters that are not visible ASCII.
std::string read_api_key(const std::string& file);

// True if a header Authorization is "Bearer KEY". Takes the same time for every wrong key.
bool knows_key(const std::string& authorization, const std::string& key);

// The user's name of a page that browsers open with a password (HTTP's basic authentication).
inline constexpr const char* kPageUser = "ft";
// True if a header Authorization has the key as the password of kPageUser. Takes the same time for every
// wrong key.
bool knows_password(const std::string& authorization, const std::string& key);

}  // namespace ft
