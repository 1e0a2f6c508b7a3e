// The key of the API, and the addresses that may ask.
#pragma once
#include <string>

namespace ft {

// Reads the key from the first line of a file. Throws UserError (config) if it is empty or has white space or
// characters that are not visible ASCII.
std::string read_api_key(const std::string& file);

// True if a header Authorization is "Bearer KEY". Takes the same time for every wrong key.
bool knows_key(const std::string& authorization, const std::string& key);

// True if an address is this machine's own: 127.x.y.z, ::1, localhost.
bool is_own_address(const std::string& host);

// Returns the host of a header "Host: NAME:PORT".
std::string host_of(const std::string& header);

}  // namespace ft
