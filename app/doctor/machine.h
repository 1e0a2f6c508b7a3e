// What a machine can tell about itself: is it ready to train?
#pragma once
#include "app/doctor/finding.h"

namespace ft {

// Processor, memory, GPUs, network, name, clock, limits.
Findings look_at_machine();

// Space, and whether files can be written, synced and renamed as checkpoints need it. Where the folder is not
// there yet, the one above; what it writes it removes.
Findings look_at_folder(const std::string& folder);

// How fast files of parameters or states are in this folder.
Finding look_at_offload(const std::string& folder);

// What a host's name stands for here: numbers; empty: nothing. `why`: the system's words.
std::vector<std::string> addresses_of(const std::string& host, std::string* why = nullptr);

}  // namespace ft
