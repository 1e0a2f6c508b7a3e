// Files of rows and of JSON, as ft inspect shows them.
#pragma once
#include <iosfwd>
#include <optional>
#include <string>

#include "engine/files/json.h"

namespace ft {

// Describes a file of rows (.jsonl, .csv, .txt, ...) or a JSON object (a run's settings, tokenizer.json,
// config.json, ...): "kind", "path" and more; nullopt for other files.
std::optional<Json> inspect_json(const std::string& path);

// True for descriptions by inspect_json().
bool is_json_kind(const Json& found);
void write_json_file(const Json& found, std::ostream&);

}  // namespace ft
