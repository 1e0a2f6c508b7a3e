// Positions in a JSON text: the line of every key and element, for errors about settings.
#pragma once
#include <map>
#include <string>
#include <string_view>

namespace ft {

using JsonLines =
    std::map<std::string, int, std::less<>>;  // "training.seed", "data.datasets.0" -> line, from 1

// Returns the lines of a text that parse_json has accepted.
JsonLines json_lines(std::string_view text);

}  // namespace ft
