// Fetches a model or data set from the hub into the hub's cache, where Python's libraries find it too.
#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "app/hub/access.h"
#include "app/hub/selection.h"
#include "app/screen/screen.h"
#include "engine/core/error.h"
#include "engine/files/hub_cache.h"

namespace ft::hub {

struct Pulled {
  std::filesystem::path folder;  // the snapshot
  std::int64_t files = 0, bytes = 0;
  std::int64_t received = 0;  // bytes that came over the network; 0: everything was there
  double seconds = 0;
  std::vector<std::string> paths;  // of the files, relative to the folder
};

struct PullLimits {
  int connections = 8;                    // files at once
  std::chrono::milliseconds pause{1000};  // wait after a first failure, see Patience
  int connect_seconds = 30, silent_seconds = 60;
};

// Fetches the files that match, several at once. A signal ends it; another call continues where it was.
// Throws UserError: (input, mismatch) see Client, (peer_lost) if the hub cannot be reached, (storage) if
// the disk has too little space, (preempted) after a signal.
Pulled pull(const Access&, const HubName&, const Patterns&, Screen&, const PullLimits& = {});

// The arguments of ft pull.
struct PullArgs {
  std::string id;  // org/name; datasets/org/name is a data set
  bool dataset = false;
  std::string revision = "main";
  Patterns patterns;
};

Exit pull_command(const PullArgs& args);

}  // namespace ft::hub
