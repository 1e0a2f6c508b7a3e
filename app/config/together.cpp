#include "app/config/together.h"

#include <algorithm>

#include "engine/core/error.h"
#include "engine/settings/fields.h"

namespace ft {
namespace {

bool has(const Clash& pair, const RunConfig& c, int ranks) {
  return pair.first.on(c, ranks) && pair.second.on(c, ranks);
}

// Returns the text with {path} replaced by the value of that setting.
std::string filled(const std::string& text, const Json& settings) {
  std::string out;
  std::size_t at = 0;
  for (std::size_t open; (open = text.find('{', at)) != text.npos;) {
    const std::size_t close = text.find('}', open);
    std::string path = "/" + text.substr(open + 1, close - open - 1);
    std::ranges::replace(path, '.', '/');
    const Json& value = settings.at(Json::json_pointer(path));
    out += text.substr(at, open - at) + (value.is_string() ? value.get<std::string>() : value.dump());
    at = close + 1;
  }
  return out + text.substr(at);
}

}  // namespace

std::string message(const Clash& pair, const RunConfig& c) {
  const std::string mend = *pair.mend ? str("; ", pair.mend) : "";
  return filled(pair.why + mend, write_settings(c));
}

std::optional<std::string> broken_rule(const RunConfig& c, int ranks) {
  const auto all = clashes();
  const auto broken = std::ranges::find_if(all, [&](const Clash& pair) { return has(pair, c, ranks); });
  if (broken == all.end()) return std::nullopt;
  return message(*broken, c);
}

bool goes_together(const RunConfig& c, int ranks) {
  return std::ranges::none_of(clashes(), [&](const Clash& pair) { return has(pair, c, ranks); });
}

void check_together(const RunConfig& c, const std::string& file) {
  if (const auto broken = broken_rule(c)) throw UserError(Exit::config, printable(file) + ": " + *broken);
}

void check_together_on(const RunConfig& c, int ranks) {
  for (const Clash& pair : clashes())
    if (has(pair, c, ranks) && !has(pair, c, 0)) throw UserError(Exit::config, message(pair, c));
}

}  // namespace ft
