// Checks of one machine, for ft doctor.
#pragma once
#include "app/doctor/finding.h"

namespace ft {

// Examines processor, memory, GPUs, network, name, clock and limits.
Findings look_at_machine();

// Checks free space, and that files can be written, synced and renamed as checkpoints need it. If the folder
// does not exist yet, checks the nearest existing folder above it. Removes the files that it writes.
Findings look_at_folder(const std::string& folder);

// Measures how fast files of offloaded parameters or states are in this folder.
Finding look_at_offload(const std::string& folder);

// Returns the addresses that a host's name resolves to on this machine. If there are none, `why` gets the
// system's message.
std::vector<std::string> addresses_of(const std::string& host, std::string* why = nullptr);

}  // namespace ft
