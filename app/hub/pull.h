// Fetches a model or data set from the hub into the hub's cache, where Python's libraries find it too.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "app/hub/access.h"
#include "app/hub/selection.h"
#include "app/hub/transfers.h"
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

// The first line: "fetching org/name: 12 files, 13.5 GB".
std::string begin_line(const std::string& id, std::int64_t files, std::int64_t bytes);
// The last line: "pulled   org/name, 12 files, 13.5 GB in 2m41s -> FOLDER".
std::string end_line(const std::string& id, const Pulled& pulled);

// Fetches the files that match, several at once. A signal ends it; another call continues where it was.
// Throws UserError: (input, mismatch) see Client, (peer_lost) if the hub cannot be reached, (storage) if
// the disk has too little space, (preempted) after a signal.
Pulled pull(const Access&, const HubName&, const Patterns&, Screen&, const TransferLimits& = {});

// Returns the name of a model or data set as typed: org/name, or datasets/org/name. Throws UserError (config)
// if it is no id.
HubName typed_name(const std::string& command, const std::string& id, bool dataset,
                   const std::string& revision);

// The arguments of ft pull.
struct PullArgs {
  std::string id;  // org/name; datasets/org/name is a data set
  bool dataset = false;
  std::string revision = "main";
  Patterns patterns;
};

Exit pull_command(const PullArgs& args);

}  // namespace ft::hub
