// Files of rows and of JSON, for ft inspect.
#pragma once
#include <iosfwd>
#include <optional>
#include <string>

#include "engine/files/json.h"

namespace ft {

// Describes a file of rows (.jsonl, .csv, .txt, ...) or a JSON object (a run's settings, tokenizer.json,
// config.json, ...): "kind", "path" and more. Returns nullopt for other files.
std::optional<Json> inspect_json(const std::string& path);

// True if inspect_json() made the description.
bool is_json_kind(const Json& found);
void write_json_file(const Json& found, std::ostream&);

}  // namespace ft
