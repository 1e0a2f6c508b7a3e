// Writing to a file descriptor until all bytes are written.
#pragma once
#include <cstdint>

namespace ft {

// Writes all bytes, also where a call is interrupted or takes a part. Returns errno; 0: all is written.
int write_all(int fd, const void* data, std::int64_t bytes);

}  // namespace ft
