#include "app/cli/typography.h"

#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "engine/core/typography.h"
#include "engine/files/file.h"
#include "engine/files/json.h"

namespace ft {
namespace {

// Returns true for values in which typographic characters are meant.
bool is_meant(const std::string& value) {
  if (value.empty() || path_exists(value)) return true;
  if (value[0] == '{' || value[0] == '[') return Json::accept(value);
  const auto first = find_typography(value);
  return value.find(' ') != value.npos && first && first->at > 0;
}

}  // namespace

void refuse_typography(const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if ((arguments[0] == "translate-args" || arguments[0] == "import") && word == "--") return;
    const auto t = find_typography(word);
    const std::size_t equals = word.find('=');
    const bool named = equals != word.npos;  // --name=value or a.b=value
    const std::string name = named ? word.substr(0, equals) : word;
    if (!t || name == "--prompt" || (i > 0 && arguments[i - 1] == "--prompt")) continue;
    if (!(named && t->at < equals) && is_meant(named ? word.substr(equals + 1) : word)) continue;
    throw UserError(Exit::config, str("ft: ", printable(word), " has a typographic ", t->kind(), ", ",
                                      word.substr(t->at, t->bytes), " (", t->code, "); type:\n  ft ",
                                      shell_line(plain_words(arguments))));
  }
}

}  // namespace ft
