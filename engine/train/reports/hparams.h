// What TensorBoard's TEXT and HPARAMS pages read: values of a Summary (tensorboard.h wraps them in events).
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/files/json.h"

namespace ft::tensorboard {

using Settings = std::vector<std::pair<std::string, Json>>;  // by dotted name

// Markdown under the tag.
std::string text_value(const std::string& tag, std::string_view markdown);

// Which settings there are, of which types, and the tags of the metrics beside them. A setting that is null
// has no value and is left out; a list is its JSON.
std::string experiment_value(const Settings& settings, const std::vector<std::string>& metrics, double time);
std::string session_start_value(const Settings& settings, double time);
std::string session_end_value(bool finished, double time);

}  // namespace ft::tensorboard
