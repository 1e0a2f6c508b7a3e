// Fetches one file of a repository into its blob. A broken connection is made again where it broke; an
// unfinished blob of an earlier process is continued. The size and the hash are checked before the blob
// gets its name.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "app/hub/client.h"
#include "app/hub/repository.h"
#include "app/hub/transfers.h"

namespace ft::hub {

struct Fetching {
  Client& client;
  const Repository& repository;
  std::string commit;
  Progress& progress;
  std::function<bool()> stop;
  std::chrono::milliseconds pause;  // wait after a first failure, see Patience
};

// Returns when the blob is there. Throws UserError (input) if the server sends other bytes than the listing
// promises, (peer_lost) if it cannot be reached, (storage) if the disk is full; Stopped if `stop` returned
// true.
void fetch(const Fetching&, const RemoteFile&);

}  // namespace ft::hub
