// Arguments of one schedule or optimizer: a struct with fields, read from training.lr_scheduler_kwargs or
// training.optim_args. An unknown key is a mistake.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "engine/settings/fields.h"

namespace ft {

// Takes the keys out of `given` that `owner` does not have, a mistake each.
void refuse_unknown(std::string_view owner, const std::string& setting, Json& given,
                    const std::vector<std::string>& known, Reading& to);

// For settings that were checked where their lines were known.
inline SettingsText nowhere() { return {.value = Json::object(), .lines = {}, .name = "settings"}; }

// Returns `arguments` with the given values. mistake_of(arguments) names a mistake that they make together;
// "": none. Throws UserError (config) with every mistake, by the setting's place in `tree`.
template <class Arguments, class MistakeOf>
Arguments read_arguments(Arguments arguments, std::string_view owner, const std::string& setting, Json given,
                         const SettingsText& tree, const MistakeOf& mistake_of) {
  Reading reading(tree, "", nullptr);
  if (!given.is_object()) {
    reading.expected(setting, "an object {...}", given);
    reading.finish();
  }
  std::vector<std::string> known;
  for (const Setting& s : describe<Arguments>()) known.push_back(s.path);
  refuse_unknown(owner, setting, given, known, reading);
  Reader::section(reading, given, arguments, setting);
  reading.finish();
  if (const std::string mistake = mistake_of(arguments); !mistake.empty())
    reading.fail(setting, str(owner, ": ", mistake));
  reading.finish();
  return arguments;
}

}  // namespace ft
