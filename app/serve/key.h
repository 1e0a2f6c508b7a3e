// The key that clients have to know, and who may ask at all.
#pragma once
#include <string>

namespace ft {

// The first line of a file. UserError when it is empty or has white space within.
std::string read_api_key(const std::string& file);

// Whether a header Authorization says "Bearer KEY". Takes the same time wherever they differ.
bool knows_key(const std::string& authorization, const std::string& key);

// Whether an address is this machine's own: 127.x.y.z, ::1, localhost.
bool is_own_address(const std::string& host);

// The host of a header "Host: NAME:PORT".
std::string host_of(const std::string& header);

}  // namespace ft
