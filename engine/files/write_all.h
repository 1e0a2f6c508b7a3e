// Writing to a file descriptor until all bytes are written, and on the disk.
#pragma once
#include <cstdint>

namespace ft {

// Writes all bytes, also where a call is interrupted or takes a part. Returns errno; 0: all is written.
int write_all(int fd, const void* data, std::int64_t bytes);

// Waits until all written bytes are on the disk; starts again if a signal interrupts it. Returns errno. Any
// error but that one is final: the kernel may have dropped the pages that it could not write.
int sync_all(int fd);

// Does the same without times of the file, which nobody reads: enough for files that grow. Their sizes are on
// the disk too.
int sync_data(int fd);

}  // namespace ft
