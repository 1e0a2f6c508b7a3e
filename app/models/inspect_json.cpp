#include "app/models/inspect_json.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "app/screen/format.h"
#include "data/files/files.h"
#include "data/files/json_row.h"
#include "data/files/row_reader.h"
#include "engine/core/error.h"

namespace ft {
namespace {

constexpr JsonRules kRules{.max_bytes = std::size_t{256} << 20, .unique_keys = false};

const char* type_of(const Json& value) {
  if (value.is_string()) return "text";
  if (value.is_number()) return "number";
  if (value.is_boolean()) return "true or false";
  if (value.is_null()) return "null";
  return value.is_array() ? "list" : "object";
}

Json inspect_rows(const std::string& path) {
  constexpr std::int64_t kLooked = 1000;  // rows whose columns are collected
  std::vector<std::string> names;
  std::map<std::string, std::set<std::string>> types;
  std::int64_t count = 0;
  const auto rows = open_rows({path, path});
  for (Row row; rows->next(row); ++count) {
    if (count >= kLooked) continue;
    const Json tree = read_row(row.text, {&path, row.line});
    for (const auto& [name, value] : tree.items()) {
      if (!types.contains(name)) names.push_back(name);
      types[name].insert(type_of(value));
    }
  }
  Json columns = Json::array();
  for (const std::string& name : names) {
    std::string all;
    for (const std::string& type : types[name]) all += (all.empty() ? "" : ", ") + type;
    columns.push_back({{"name", name}, {"type", all}});
  }
  return {{"kind", "rows"},
          {"path", path},
          {"rows", count},
          {"bytes", std::filesystem::file_size(path)},
          {"columns", columns}};
}

// Recognizes the kind of a JSON object's file by its keys; "": unknown.
const char* kind_of_object(const Json& tree) {
  const auto has = [&](const char* key) { return tree.contains(key); };
  if (has("added_tokens") && has("model") && tree["model"].is_object()) return "tokenizer";
  if (has("peft_type")) return "adapter settings";
  if (has("model_type")) return "model settings";
  if (has("model") && tree["model"].is_object() && (has("data") || has("training"))) return "run settings";
  return has("zero_optimization") || has("train_micro_batch_size_per_gpu") ? "DeepSpeed settings" : "";
}

Json inspect_object(const std::string& path, const Json& tree) {
  const std::string kind = kind_of_object(tree);
  Json out = {{"kind", kind.empty() ? "json" : kind}, {"path", path}};
  out["bytes"] = std::filesystem::file_size(path);
  if (kind != "tokenizer") return out["content"] = tree, out;
  const Json& model = tree["model"];
  if (model.contains("type") && model["type"].is_string()) out["model"] = model["type"];
  if (model.contains("vocab")) out["tokens"] = model["vocab"].size();
  if (model.contains("merges")) out["merges"] = model["merges"].size();
  out["added_tokens"] = tree["added_tokens"].size();
  return out;
}

bool begins_with_row(const std::string& path) {
  try {
    const auto rows = open_rows({path, path});
    Row row;
    if (!rows->next(row)) return false;
    read_row(row.text, {&path, row.line});
    return true;
  } catch (const UserError&) {
    return false;
  }
}

// Returns the file's JSON value; nullopt if it holds several.
std::optional<Json> only_value(const std::string& path) {
  try {
    return read_json(path, kRules);
  } catch (const UserError&) {
    return std::nullopt;
  }
}

}  // namespace

std::optional<Json> inspect_json(const std::string& path) {
  if (!is_data_file(path) && extension_of(path) != ".json") return std::nullopt;
  if (extension_of(path) == ".json") {
    const auto tree = begins_with_row(path) ? only_value(path) : std::optional(read_json(path, kRules));
    if (tree && tree->is_object()) return inspect_object(path, *tree);
  }
  return inspect_rows(path);
}

bool is_json_kind(const Json& found) {
  const std::string kind = found["kind"];
  return kind == "rows" || kind == "json" || kind == "tokenizer" || kind.ends_with(" settings");
}

void write_json_file(const Json& found, std::ostream& out) {
  const std::string kind = found["kind"], path = printable(found["path"].get<std::string>());
  const auto count = [&](const char* key) { return found.value(key, std::int64_t{0}); };
  out << path << "  ";
  if (kind == "rows") {
    out << show::plural(count("rows"), "row") << ", " << show::file_size(count("bytes")) << "\n";
    for (const Json& column : found["columns"])
      out << "  " << printable(column["name"].get<std::string>()) << ": " << column["type"].get<std::string>()
          << "\n";
    out << "ft data show --config run.json shows how rows become tokens\n";
    return;
  }
  if (kind == "tokenizer") {
    out << "tokenizer, " << printable(found.value("model", "of no named model")) << ", "
        << show::plural(count("tokens"), "token") << ", "
        << (count("merges") > 0 ? show::plural(count("merges"), "merge") + ", " : "") << count("added_tokens")
        << " added\n";
    return;
  }
  out << (kind == "json" ? "JSON" : kind) << ", " << show::file_size(count("bytes")) << "\n";
  for (const auto& [key, value] : found["content"].items())
    out << "  " << printable(key) << ": "
        << printable(value.dump(-1, ' ', false, Json::error_handler_t::replace), 100) << "\n";
  if (kind == "run settings") out << "ft validate --config " << path << " checks them\n";
}

}  // namespace ft
