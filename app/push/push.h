// Sends an adapter, a model or data to the Hugging Face hub, in one commit that comes complete or not at all.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "app/hub/access.h"
#include "app/hub/transfers.h"
#include "app/push/choice.h"
#include "app/screen/screen.h"
#include "engine/core/error.h"
#include "engine/files/hub_cache.h"

namespace ft::hub {

struct Sending {
  HubName name;
  bool is_private = false;  // of a repository that is made
  bool create_pr = false;
  std::string message;
};

struct Pushed {
  std::int64_t files = 0, bytes = 0;  // of the commit; 0: the hub had everything
  std::int64_t sent = 0;              // bytes of large files that went over the network
  double seconds = 0;
  std::string address;  // of the commit or the pull request
};

// Shows the files, and sends those that the hub does not have: large ones several at once, then all in one
// commit. A signal ends it before the commit; another call sends only the rest. Throws UserError: (input,
// mismatch) see HubWriter, (config) if a public repository is to be private, (peer_lost) if the hub cannot be
// reached, (preempted) after a signal.
Pushed push(const Access&, const Sending&, const Choice&, Screen&,
            const TransferLimits& = {.silent_seconds = 300});

// The arguments of ft push.
struct PushArgs {
  std::string folder;
  std::string id;  // org/name; datasets/org/name is a data set
  std::string type = "model";
  std::string revision = "main";
  std::string message = "Upload a folder with ft";
  std::string base_model;
  Patterns patterns;
  bool is_private = false, create_pr = false, dry_run = false;
};

// Chooses the files of a push, with a card and an adapter_config.json that names no path of this machine.
// Throws UserError (config) if the base model's id is not known.
Choice choose_with_card(const PushArgs& args, const HubName& name, const std::filesystem::path& cache);

Exit push_command(const PushArgs& args);

}  // namespace ft::hub
