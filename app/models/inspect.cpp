#include "app/models/inspect.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <type_traits>

#include "app/models/inspect_json.h"
#include "app/screen/format.h"
#include "data/files/columnar/summary.h"
#include "engine/files/checkpoint_folder.h"
#include "engine/files/json.h"
#include "engine/formats/bitsandbytes.h"
#include "engine/formats/fp8_folder.h"
#include "engine/formats/gguf/gguf.h"
#include "lora/peft_config.h"

namespace ft {
namespace {

Json tensor_json(const StoredTensor& t, const std::string& file) {
  Json out = {{"name", t.name}, {"dtype", name_of(t.type)}, {"shape", t.shape}, {"bytes", t.end - t.begin}};
  if (!file.empty()) out["file"] = file;
  return out;
}

// Returns the number of elements of the model that a tensor stands for, in a folder of quantized weights that
// looks like the dense model's. null: they are not quantized.
std::int64_t elements(const StoredTensor& t, const WeightSource* quantized) {
  if (!quantized) return t.numel;
  if (!quantized->has(t.name)) return 0;
  const std::vector<std::int64_t> shape = quantized->info(t.name).shape;
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

const char* scales_name(const Fp8Scheme& s) {
  return s == kFp8Channels ? "channel" : s == kFp8Blocks ? "block" : "tensor";
}

// Adds the files' content: "files", "bytes", "parameters", "metadata", "tensors".
void add_tensors(Json& out, const std::vector<const SafetensorsFile*>& files,
                 const WeightSource* quantized = nullptr) {
  std::int64_t bytes = 0, parameters = 0;
  Json names = Json::array(), tensors = Json::array(), metadata = Json::object();
  for (const auto* file : files) {
    const std::string name = std::filesystem::path(file->path()).filename().string();
    names.push_back(name);
    for (const auto& [key, value] : file->metadata()) metadata[key] = value;
    for (const auto& t : file->tensors()) {
      bytes += t.end - t.begin;
      parameters += elements(t, quantized);
      tensors.push_back(tensor_json(t, files.size() > 1 ? name : ""));
    }
  }
  out["files"] = names;
  out["bytes"] = bytes;
  out["parameters"] = parameters;
  out["metadata"] = metadata;
  out["tensors"] = tensors;
}

// Opens a safetensors file. If the file's name has another ending, the error says which files ft knows, which
// helps more than an error about the header.
SafetensorsFile open_safetensors(const std::string& path) {
  try {
    return SafetensorsFile(path);
  } catch (const UserError&) {
    if (!path_exists(path) || extension_of(path) == ".safetensors") throw;
    throw UserError(Exit::input, str(printable(path),
                                     ": is not a file that ft inspect knows: safetensors, GGUF, Parquet, "
                                     "Arrow, rows (.jsonl, .json, .csv, .tsv, .txt) or settings (.json); or "
                                     "a folder of a model, an adapter, a checkpoint or a run"));
  }
}

Json inspect_file(const std::string& path) {
  const SafetensorsFile file = open_safetensors(path);
  Json out = {{"kind", "safetensors"}, {"path", path}};
  add_tensors(out, {&file});
  return out;
}

// Returns a key's value; for a list, such as a vocabulary, only its length.
Json gguf_json(const GgufValue& value) {
  return std::visit(
      [](const auto& v) {
        using T = std::decay_t<decltype(v)>;
        if constexpr (requires { v.begin(); } && !std::is_same_v<T, std::string>)
          return Json(str("a list of ", v.size()));
        else
          return Json(v);
      },
      value);
}

Json inspect_gguf(const std::string& path) {
  const GgufFile file(path);
  Json out = {{"kind", "gguf"}, {"path", path}};
  out["files"] = {std::filesystem::path(path).filename().string()};
  std::int64_t bytes = 0, parameters = 0;
  Json tensors = Json::array(), metadata = Json::object();
  for (const GgufTensor& t : file.tensors()) {
    bytes += t.bytes();
    parameters += t.elements();
    tensors.push_back(
        {{"name", t.name}, {"dtype", form_of(t.type)->name}, {"shape", t.shape}, {"bytes", t.bytes()}});
  }
  for (const auto& [key, value] : file.keys()) metadata[key] = gguf_json(value);
  out["bytes"] = bytes;
  out["parameters"] = parameters;
  out["metadata"] = metadata;
  out["tensors"] = tensors;
  return out;
}

Json inspect_columns(const DataFile& file) {
  const columnar::Summary about = columnar::summarize(file);
  Json out = {{"kind", about.parquet ? "parquet" : "arrow"}, {"path", file.name}, {"rows", about.rows}};
  out[about.parquet ? "row_groups" : "batches"] = about.parts;
  out["bytes"] = std::filesystem::file_size(file.path);
  out["columns"] = Json::array();
  for (const auto& column : about.columns)
    out["columns"].push_back({{"name", column.name}, {"type", column.type}});
  return out;
}

Json inspect_adapter(const std::string& folder) {
  const auto [config, base, warnings] =
      lora::read_adapter_config(join_path(folder, "adapter_config.json"), Exit::input, lora::KindsRead::all);
  const SafetensorsFile file(join_path(folder, "adapter_model.safetensors"));
  Json out = {{"kind", "adapter"}, {"path", folder}, {"peft_type", config.peft_type->peft_type}};
  if (config.peft_type->key_of("r")) out["r"] = config.r;
  if (config.peft_type->key_of("oft_block_size")) out["oft_block_size"] = config.oft_block_size;
  if (config.peft_type->key_of("lora_alpha")) out["lora_alpha"] = config.lora_alpha;
  out["base_model_name_or_path"] = base.empty() ? Json() : Json(base);
  out["target_modules"] = std::visit([](const auto& v) { return Json(v); }, config.target_modules);
  if (!warnings.empty()) out["warnings"] = warnings;
  add_tensors(out, {&file});
  std::int64_t places = 0;  // SHiRA's, which are not parameters
  for (const StoredTensor& t : file.tensors())
    if (t.type == StoredType::i32) places += t.numel;
  out["parameters"] = out["parameters"].get<std::int64_t>() - places;
  return out;
}

// Opens a folder in FP8. null: it has no weights in FP8, or some that ft does not read, which are listed as
// they are.
std::unique_ptr<const Fp8Folder> fp8_folder(const ModelFolder& model, const std::string& folder) {
  if (!Fp8Folder::is_one(model)) return nullptr;
  try {
    return std::make_unique<const Fp8Folder>(std::make_unique<ModelFolder>(folder));
  } catch (const UserError&) {
    return nullptr;
  }
}

Json inspect_model(const std::string& folder) {
  const ModelFolder model(folder);
  Json out = {{"kind", "model"}, {"path", folder}};
  const std::string config = join_path(folder, "config.json");
  if (path_exists(config)) {
    const JsonObject o = JsonObject::read(config);
    if (o.is_text("model_type")) out["model_type"] = o.text("model_type");
    if (o.is_array("architectures")) out["architectures"] = o.texts("architectures");
  }
  std::vector<const SafetensorsFile*> files;
  for (const auto& file : model.files()) files.push_back(file.get());
  if (const auto fp8 = fp8_folder(model, folder)) {
    add_tensors(out, files, fp8.get());
    for (const std::string& name : fp8->names())
      if (const StoredFp8* s = fp8->find(name)) {
        out["quantization"] = {{"quant_type", "fp8"}, {"scales", scales_name(s->scheme)}};
        break;
      }
    return out;
  }
  if (!BitsAndBytesFolder::is_one(model)) {
    add_tensors(out, files);
    return out;
  }
  const BitsAndBytesFolder four_bit(std::make_unique<ModelFolder>(folder));
  add_tensors(out, files, &four_bit);
  for (const std::string& name : four_bit.names())
    if (const StoredFourBit* s = four_bit.find(name)) {
      out["quantization"] = {{"quant_type", name_of(s->form.book)},
                             {"blocksize", s->form.block},
                             {"double_quant", s->form.nested}};
      break;
    }
  return out;
}

Json inspect_checkpoint(const std::string& folder) {
  const Checkpoint checkpoint = open_checkpoint(folder);
  Json out = {
      {"kind", "checkpoint"}, {"path", folder}, {"step", checkpoint.step}, {"verified", checkpoint.files}};
  out["about"] = checkpoint.about.json();
  std::vector<SafetensorsFile> files;
  for (const auto& name : checkpoint.files)
    if (name.ends_with(".safetensors")) files.emplace_back(join_path(folder, name), Exit::checkpoint);
  std::vector<const SafetensorsFile*> pointers;
  for (const auto& file : files) pointers.push_back(&file);
  add_tensors(out, pointers);
  return out;
}

Json inspect_run(const std::string& folder) {
  Json out = {{"kind", "run"}, {"path", folder}, {"checkpoints", Json::array()}};
  for (const auto step : list_checkpoints(folder)) {
    Json entry = {{"path", checkpoint_path(folder, step)}, {"step", step}, {"whole", true}};
    try {
      open_checkpoint(checkpoint_path(folder, step));
    } catch (const UserError& e) {
      entry["whole"] = false;
      entry["problem"] = e.what();
    }
    out["checkpoints"].push_back(entry);
  }
  out["result"] = nullptr;
  if (path_exists(join_path(folder, "adapter_config.json"))) out["result"] = inspect_adapter(folder);
  if (path_exists(join_path(folder, "config.json"))) out["result"] = inspect_model(folder);
  return out;
}

Json inspect_path(const std::string& path) {
  const auto holds = [&path](const char* name) { return path_exists(join_path(path, name)); };
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) {
    if (columnar::has_summary({path, path})) return inspect_columns({path, path});
    if (GgufFile::is_one(path)) return inspect_gguf(path);
    if (auto found = inspect_json(path)) return std::move(*found);
    return inspect_file(path);
  }
  if (holds("manifest.json")) return inspect_checkpoint(path);
  if (holds("log.jsonl") || !list_checkpoints(path).empty()) return inspect_run(path);
  if (holds("adapter_config.json")) return inspect_adapter(path);
  return inspect_model(path);
}

// ---- the table for people ----

// Replaces the numbers in a tensor's name by "*". `number` gets the first of them, the layer.
std::string without_numbers(const std::string& name, std::int64_t& number) {
  std::string out;
  number = -1;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string part = name.substr(begin, end - begin);
    const bool digits =
        !part.empty() && part.size() < 10 &&
        std::all_of(part.begin(), part.end(), [](unsigned char c) { return std::isdigit(c); });
    if (digits && number < 0) number = std::stoll(part);
    out += (begin ? "." : "") + (digits ? "*" : part);
    begin = end + 1;
  }
  return out;
}

// A line of the table: all tensors of one name, shape and type, in any number of layers.
struct TensorRow {
  std::string type, shape, name, first;
  std::int64_t count = 0, bytes = 0;
};

std::vector<TensorRow> rows_of(const Json& tensors) {
  std::vector<TensorRow> rows;
  std::map<std::string, std::size_t> by_key;
  for (const auto& t : tensors) {
    std::int64_t number = 0;
    const auto name = t["name"].get<std::string>(), type = t["dtype"].get<std::string>();
    const std::string shape = shape_text(t["shape"].get<std::vector<std::int64_t>>());
    const std::string pattern = without_numbers(name, number);
    const auto [at, fresh] = by_key.try_emplace(pattern + "\n" + type + shape, rows.size());
    if (fresh) rows.push_back({type, shape, pattern, name, 0, 0});
    rows[at->second].count += 1;
    rows[at->second].bytes += t["bytes"].get<std::int64_t>();
  }
  return rows;
}

void write_tensors(const Json& json, std::ostream& out) {
  const auto rows = rows_of(json["tensors"]);
  std::size_t type = 0, shape = 0, count = 0;
  for (const auto& r : rows) {
    type = std::max(type, r.type.size());
    shape = std::max(shape, r.shape.size());
    count = std::max(count, r.count > 1 ? show::count(r.count).size() + 2 : 0);
  }
  const auto padded = [](const std::string& text, std::size_t width) {
    return text + std::string(width - std::min(width, text.size()), ' ');
  };
  for (const auto& r : rows) {
    const std::string size = show::file_size(r.bytes), times = r.count > 1 ? show::count(r.count) + " x" : "";
    out << padded("", 10 - std::min<std::size_t>(10, size.size())) << size << "  "
        << padded("", count - times.size()) << times << (count ? " " : "") << padded(r.type, type) << " "
        << padded(r.shape, shape) << "  " << printable(r.count > 1 ? r.name : r.first) << "\n";
  }
}

// Returns "6.74 B parameters, BF16, 291 tensors, 13.5 GB in 3 files".
std::string summary(const Json& json) {
  std::set<std::string> types;
  for (const auto& t : json["tensors"]) types.insert(t["dtype"].get<std::string>());
  std::string text = show::quantity(json["parameters"].get<double>()) + " parameters";
  for (const auto& t : types) text += (&t == &*types.begin() ? ", " : " ") + t;
  text += ", " + show::plural(static_cast<std::int64_t>(json["tensors"].size()), "tensor") + ", " +
          show::file_size(json["bytes"].get<std::int64_t>());
  if (json["files"].size() > 1)
    text += " in " + show::plural(static_cast<std::int64_t>(json["files"].size()), "file");
  return text;
}

std::string title_of_kind(const std::string& peft_type) {
  for (const auto kinds : {lora::AdapterKind::all(), lora::AdapterKind::read_only()})
    for (const lora::AdapterKind* kind : kinds)
      if (peft_type == kind->peft_type) return kind->title;
  return peft_type;
}

std::string title(const Json& json) {
  const auto kind = json["kind"].get<std::string>();
  if (kind == "adapter")
    return str(title_of_kind(json["peft_type"]), " adapter",
               json.contains("r") ? str(", r ", json["r"].get<std::int64_t>()) : "",
               json.contains("oft_block_size")
                   ? str(", blocks of ", json["oft_block_size"].get<std::int64_t>())
                   : "",
               json.contains("lora_alpha") ? str(", alpha ", json["lora_alpha"].get<double>()) : "", ", on ",
               json_excerpt(json["target_modules"]), ", ");
  if (kind == "checkpoint")
    return str("checkpoint of step ", json["step"].get<std::int64_t>(), ", verified, ");
  if (kind == "model" && json.contains("architectures") && !json["architectures"].empty())
    return printable(json["architectures"][0].get<std::string>()) + ", ";
  if (kind == "gguf") return "GGUF, ";
  return kind == "model" ? "model, " : "safetensors, ";
}

// Writes "Parquet, 7,473 rows in 8 row groups, 2.3 MB", and the columns.
void write_columns(const Json& json, std::ostream& out) {
  const bool parquet = json["kind"] == "parquet";
  const auto number = [&](const char* key) { return json[key].get<std::int64_t>(); };
  const std::int64_t parts = number(parquet ? "row_groups" : "batches");
  out << (parquet ? "Parquet, " : "Arrow, ") << show::plural(number("rows"), "row") << " in "
      << (parquet      ? show::plural(parts, "row group")
          : parts == 1 ? "1 batch"
                       : show::count(parts) + " batches")
      << ", " << show::file_size(number("bytes")) << "\n";
  for (const auto& column : json["columns"])
    out << "  " << printable(column["name"].get<std::string>()) << ": "
        << printable(column["type"].get<std::string>()) << "\n";
}

void write_table(const Json& json, std::ostream& out) {
  const std::string path = printable(json["path"].get<std::string>());
  if (is_json_kind(json)) return write_json_file(json, out);
  if (json.contains("columns")) {
    out << path << "  ";
    return write_columns(json, out);
  }
  if (json["kind"] != "run") {
    out << path << "  " << title(json) << summary(json) << "\n";
    for (const auto& [key, value] : json["metadata"].items())
      out << "  " << printable(key) << ": "
          << printable(value.is_string() ? value.get<std::string>() : value.dump()) << "\n";
    write_tensors(json, out);
    return;
  }
  out << path << "  run, "
      << show::plural(static_cast<std::int64_t>(json["checkpoints"].size()), "checkpoint") << "\n";
  for (const auto& c : json["checkpoints"])
    out << "  checkpoint-" << c["step"].get<std::int64_t>() << "  "
        << (c["whole"].get<bool>() ? "intact" : printable(c["problem"].get<std::string>())) << "\n";
  if (!json["result"].is_null()) write_table(json["result"], out);
}

}  // namespace

void write_inspection(const std::string& path, bool json, std::ostream& out) {
  const Json found = inspect_path(path);
  if (json)
    out << json_text(found) << "\n";
  else
    write_table(found, out);
}

Exit inspect(const InspectArgs& args) {
  write_inspection(args.path, args.json, std::cout);
  return Exit::done;
}

}  // namespace ft
