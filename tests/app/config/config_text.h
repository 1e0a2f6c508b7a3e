// Configurations as texts, for tests of accepted and refused settings.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "app/config/config.h"
#include "engine/core/error.h"

namespace ft::test {

using Overrides = std::vector<std::string>;

// The smallest configuration, with `more` as further members from line 4 on.
inline std::string with(const std::string& more) {
  return "{\n \"model\": {\"model_name_or_path\": \"m\"},\n \"data\": {\"datasets\": [{\"path\": "
         "\"d.jsonl\"}]}" +
         (more.empty() ? "" : ",\n " + more) + "\n}\n";
}

inline RunConfig parsed(const std::string& more, const Overrides& overrides = {}) {
  return parse_config(with(more), "run.json", "", overrides);
}

inline std::string refusal(const std::string& text, const Overrides& overrides = {}) {
  try {
    parse_config(text, "run.json", "", overrides);
  } catch (const UserError& e) {
    EXPECT_EQ(e.code, Exit::config);
    return e.what();
  }
  return "accepted";
}
inline std::string refused(const std::string& more) { return refusal(with(more)); }
inline std::string refused_override(const std::string& assignment) { return refusal(with(""), {assignment}); }

}  // namespace ft::test
