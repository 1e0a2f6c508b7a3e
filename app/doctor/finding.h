// What ft doctor found.
#pragma once
#include <string>
#include <vector>

#include "engine/core/error.h"
#include "engine/files/json.h"

namespace ft {

enum class Health { good, advice, bad };

struct Finding {
  Health health = Health::good;
  std::string topic;       // memory
  std::string what;        // 21.3 of 23.0 GiB free
  std::string todo;        // what to do; empty: nothing
  Exit exit = Exit::done;  // of the command, where it is bad
};

// What a run will write to.
struct Folders {
  std::string output;
  std::vector<std::string> offload;  // for files of parameters and states
};

using Findings = std::vector<Finding>;

const char* name_of(Health);  // good, advice, bad
Json to_json(const Findings&);
Findings findings_of(const std::vector<JsonObject>&);

}  // namespace ft
