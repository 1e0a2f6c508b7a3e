// A trial of distributed.encryption within this process.
#pragma once
#include <cstdint>

#include "engine/ranks/encryption.h"

namespace ft {

// Makes a connection of two ends, as ranks do, and sends `bytes` over it. Returns the bytes a second. Throws
// UserError if no connection comes about or bytes do not arrive as they were sent.
double try_seal(Encryption, std::int64_t bytes = std::int64_t{32} << 20);

}  // namespace ft
