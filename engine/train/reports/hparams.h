// Makes the Summary values that TensorBoard's TEXT and HPARAMS pages read; tensorboard.h puts them into
// events.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/files/json.h"

namespace ft::tensorboard {

using Settings = std::vector<std::pair<std::string, Json>>;  // by dotted name

// Returns Markdown under the tag.
std::string text_value(const std::string& tag, std::string_view markdown);

// Returns the list of settings with their types, and the tags of the metrics shown with them. A setting that
// is null is left out; a list becomes JSON text.
std::string experiment_value(const Settings& settings, const std::vector<std::string>& metrics, double time);
std::string session_start_value(const Settings& settings, double time);
std::string session_end_value(bool finished, double time);

}  // namespace ft::tensorboard
