#include "engine/train/arguments.h"

#include <algorithm>

#include "engine/core/suggest.h"

namespace ft {

void refuse_unknown(std::string_view owner, const std::string& setting, Json& given,
                    const std::vector<std::string>& known, Reading& to) {
  std::string all;
  for (const std::string& name : known) all += (all.empty() ? "" : ", ") + name;
  Json kept = Json::object();
  for (const auto& [key, value] : given.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) {
      kept[key] = value;
      continue;
    }
    const std::string near = nearest(key, known);
    to.fail(str(setting, ".", key),
            str(owner, known.empty() ? " takes no arguments" : " has no such argument",
                near.empty() ? "" : "; do you mean " + near + "?",
                known.empty() ? "" : str(near.empty() ? "; it has " : " It has ", all)));
  }
  given = std::move(kept);
}

}  // namespace ft
