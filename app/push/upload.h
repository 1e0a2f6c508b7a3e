// Sends one large file to the hub's store, in one piece or in parts, as the hub orders. A broken connection
// is made again: a file in parts goes on with the part that broke.
#pragma once
#include <chrono>
#include <functional>
#include <optional>

#include "app/hub/transfers.h"
#include "app/push/hub_writer.h"

namespace ft::hub {

struct Uploading {
  HubWriter& writer;
  Progress& progress;
  std::function<bool()> stop;
  std::chrono::milliseconds pause;  // wait after a first failure, see Patience
};

// Returns when the hub has the file. Throws UserError (input) if the hub refuses it, or the file has changed;
// (peer_lost) if the store cannot be reached; Stopped if `stop` returned true.
void upload(const Uploading&, const Addition&, UploadOrder order);

}  // namespace ft::hub
