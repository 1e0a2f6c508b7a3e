// Names and addresses of this machine, for which no ssh is needed.
#pragma once
#include <string>

namespace ft {

// True if a hostfile's name means this machine: localhost, its own name or one of /etc/hosts, in any case, or
// an address of its own. Other names are not looked up.
bool is_here(const std::string& host);

// 127.x.y.z or ::1, written as addresses are shown.
bool is_loopback(const std::string& number);

}  // namespace ft
