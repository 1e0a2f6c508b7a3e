// Recognizes this machine's names and addresses, which need no ssh.
#pragma once
#include <string>

namespace ft {

// True if a hostfile's name means this machine: localhost, its host name, one of its names in /etc/hosts (in
// any case), or one of its addresses. Does not resolve other names.
bool is_here(const std::string& host);

// True for 127.x.y.z and ::1, as numeric addresses.
bool is_loopback(const std::string& number);

}  // namespace ft
