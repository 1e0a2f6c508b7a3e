// The seals of distributed.encryption, and the keys of a connection.
#pragma once
#include <memory>
#include <span>
#include <string>

#include "engine/ranks/channel.h"
#include "engine/ranks/handshake.h"

namespace ft {

enum class End : std::uint8_t { guest, listener };  // of a connection: the connecting one, and the other

// Seals a connection whose ends have proved that they know the token. Both ends call it at the same time.
// Throws UserError (peer_lost) if the other end does not answer correctly before the deadline; the message
// begins with `whom`, its name.
Channel sealed(Socket, Encryption, End own, const std::string& token, const Hello&, const Challenge&,
               Clock::time_point deadline, const std::string& whom);

// Bytes of a seal's buffers; 0 for none.
std::int64_t seal_memory(Encryption);
// Returns the bytes of the seals of a rank with the most connections: two to each other rank (mesh.h).
std::int64_t seals_memory(Encryption, int ranks);

}  // namespace ft
