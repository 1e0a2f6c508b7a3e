// Findings of ft doctor.
#pragma once
#include <string>
#include <vector>

#include "engine/core/error.h"
#include "engine/files/json.h"

namespace ft {

enum class Health { good, advice, bad };

struct Finding {
  Health health = Health::good;
  std::string topic;       // e.g. memory
  std::string what;        // e.g. 21.3 of 23.0 GiB free
  std::string todo;        // advice to the user; empty: none
  Exit exit = Exit::done;  // the command's exit code if this is bad
};

// Folders that a run will write to.
struct Folders {
  std::string output;
  std::vector<std::string> offload;  // folders for offloaded parameters and optimizer states
};

using Findings = std::vector<Finding>;

const char* name_of(Health);  // good, advice, bad
Json to_json(const Findings&);
Findings findings_of(const std::vector<JsonObject>&);

}  // namespace ft
