#include "app/doctor/finding.h"

#include <array>
#include <nlohmann/json.hpp>

namespace ft {
namespace {

constexpr std::array<const char*, 3> kNames{"good", "advice", "bad"};

}  // namespace

const char* name_of(Health h) { return kNames.at(static_cast<std::size_t>(h)); }

Json to_json(const Findings& all) {
  Json list = Json::array();
  for (const Finding& f : all)
    list.push_back({{"topic", f.topic},
                    {"health", name_of(f.health)},
                    {"what", printable(f.what, 1000)},
                    {"todo", printable(f.todo, 1000)},
                    {"exit", static_cast<int>(f.exit)}});
  return list;
}

Findings findings_of(const std::vector<JsonObject>& list) {
  Findings all;
  for (const JsonObject& j : list) {
    Finding f{.topic = printable(j.text("topic"), 40),
              .what = printable(j.text("what"), 1000),
              .todo = printable(j.text("todo"), 1000),
              .exit = Exit{static_cast<int>(j.integer("exit", 0, 255))}};
    for (std::size_t i = 0; i < kNames.size(); ++i)
      if (j.text("health") == kNames[i]) f.health = Health(i);
    all.push_back(f);
  }
  return all;
}

}  // namespace ft
