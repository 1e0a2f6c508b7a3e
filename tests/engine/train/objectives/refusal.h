// The message that refuses the settings of an objective.
#pragma once
#include <string>

#include "engine/core/error.h"
#include "engine/train/objectives/config.h"

namespace ft {

// Returns an empty text if the settings are accepted.
inline std::string refusal_of(const ObjectiveConfig& c) {
  try {
    check(c, [](const std::string& what) { throw UserError(Exit::config, what); });
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

}  // namespace ft
