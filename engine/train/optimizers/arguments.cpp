#include "engine/train/optimizers/arguments.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "engine/core/lower_case.h"

namespace ft {
namespace {

Json value_of_text(const std::string& text) {
  const std::string word = lower_case(text);
  if (word == "true" || word == "false") return word == "true";
  if (const Json number = Json::parse(text, nullptr, false); number.is_number()) return number;
  double number = 0;  // of more forms than JSON has: .5, 1.
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (wrong == std::errc{} && end == text.data() + text.size() && std::isfinite(number)) return number;
  return text;
}

}  // namespace

Json parse_optim_args(const std::string& text, const SettingsText& tree) {
  Json all = Json::object();
  std::string rest = text;
  std::erase(rest, ' ');
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string pair = rest.substr(0, comma);
    rest.erase(0, comma + 1);
    const std::size_t equals = pair.find('=');
    if (equals == 0 || equals == pair.npos || equals + 1 == pair.size()) {
      Reading reading(tree, "", nullptr);
      reading.fail("training.optim_args",
                   str("\"", printable(pair), "\" is not key=value; write \"key=value,key=value\""));
      reading.finish();
    }
    all[pair.substr(0, equals)] = value_of_text(pair.substr(equals + 1));
  }
  return all;
}

}  // namespace ft
