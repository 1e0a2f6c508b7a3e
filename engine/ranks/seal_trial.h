// A trial of distributed.encryption within this process.
#pragma once
#include <cstdint>

#include "engine/ranks/encryption.h"

namespace ft {

// Connects two ends over loopback, as ranks do, and sends `bytes`. Returns bytes per second. Throws UserError
// if the connection fails, or bytes are lost or changed.
double try_seal(Encryption, std::int64_t bytes = std::int64_t{32} << 20);

}  // namespace ft
