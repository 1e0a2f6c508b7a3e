// Which ft this is.
#pragma once

namespace ft {

extern const char* const kVersion;  // 0.1.0
extern const char* const kCommit;   // of the sources; empty: unknown

}  // namespace ft
