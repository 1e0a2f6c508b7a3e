#include "data/batches/prepared.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "data/chat/chat_template.h"
#include "data/files/files.h"
#include "engine/core/error.h"
#include "engine/files/hash.h"
#include "engine/files/safetensors/safetensors.h"
#include "engine/files/safetensors/safetensors_write.h"
#include "engine/settings/fields.h"

namespace ft {
namespace {

namespace fs = std::filesystem;

// Version of the file's form, and of the samples made from rows.
constexpr const char* kForm = "ft-prepared-3";

Json hash_of(const fs::path& file, const std::string& name) {
  return {{"name", name}, {"sha256", sha256(InputFile(file.string()))}};
}

// Returns one text of all facts that determine the samples.
std::string all_that_decides(const DataConfig& config, const std::vector<DatasetConfig>& datasets,
                             const std::string& setting, const LoadContext& context) {
  Json all{{"form", kForm}, {"vocab_size", context.vocab_size}, {"settings", write_settings(config)}};
  for (const char* later : {"datasets", "eval_datasets", "val_set_size", "shuffle", "data_seed", "streaming",
                            "shuffle_buffer_size", "preprocessing_num_workers", "dataset_prepared_path",
                            "pad_to_multiple_of", "pad_to_max_length"})
    all["settings"].erase(later);
  if (context.seq2seq) all["decoder"] = {context.seq2seq->start, context.seq2seq->pad, context.seq2seq->end};
  if (context.rows.kind != RowKind::example)
    all["rows"] = {static_cast<int>(context.rows.kind), context.rows.cut};
  if (const WantedLabels& labels = context.rows.labels; !labels.names.empty())
    all["labels"] = {labels.names, static_cast<int>(labels.kind), labels.of_tokens};
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    Json dataset = write_settings(datasets[i]);
    dataset.erase("weight");
    dataset.erase("report_as");
    for (const DataFile& f :
         find_data_files(datasets[i], {context.base, context.hub}, str(setting, "[", i, "]")))
      dataset["files"].push_back(hash_of(f.path, f.name));
    all["datasets"].push_back(dataset);
  }
  const fs::path tokenizer = context.tokenizer_path;
  if (fs::is_regular_file(tokenizer)) all["tokenizer"].push_back(hash_of(tokenizer, "its file"));
  const fs::path folder = fs::is_directory(tokenizer) ? tokenizer : tokenizer.parent_path();
  for (const char* name :
       {"tokenizer.json", "tokenizer.model", "spiece.model", "vocab.json", "merges.txt",
        "tokenizer_config.json", "added_tokens.json", "special_tokens_map.json", "chat_template.jinja"})
    if (fs::is_regular_file(folder / name)) all["tokenizer"].push_back(hash_of(folder / name, name));
  std::error_code none;
  std::vector<fs::path> templates;
  for (const auto& entry : fs::directory_iterator(folder / "additional_chat_templates", none))
    if (entry.is_regular_file()) templates.push_back(entry.path());
  std::sort(templates.begin(), templates.end());
  if (config.chat_template && is_template_file(*config.chat_template) &&
      fs::is_regular_file(folder / *config.chat_template))
    templates.push_back(folder / *config.chat_template);
  for (const fs::path& file : templates)
    all["chat_templates"].push_back(hash_of(file, file.filename().string()));
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

using Ints = std::vector<std::int32_t>;

Tensor tensor_of(const Ints& values) {
  auto* data = reinterpret_cast<std::byte*>(const_cast<std::int32_t*>(values.data()));  // is only read
  return Tensor(data, DType::i32, {std::ssize(values)});
}

Ints read_ints(const SafetensorsFile& file, const std::string& name) {
  const StoredTensor* t = file.find(name);
  if (!t || t->type != StoredType::i32 || t->shape.size() != 1) throw UserError(Exit::input, "no " + name);
  Ints values(static_cast<std::size_t>(t->numel));
  file.read(*t, tensor_of(values));
  return values;
}

bool all_within(const Ints& values, std::int64_t low, std::int64_t end, std::int32_t other) {
  return std::all_of(values.begin(), values.end(),
                     [&](std::int32_t v) { return v == other || (low <= v && v < end); });
}

// True if each sample of a classification has the numbers that its label needs, and classes are known ones.
bool labels_fit(const WantedLabels& wanted, const Ints& labels, const SampleStore::Arrays& arrays) {
  const auto names = std::ssize(wanted.names);
  if (wanted.of_tokens) return all_within(labels, 0, names, kIgnored) && arrays.values.empty();
  const bool one = wanted.kind == LabelKind::one_class;
  const auto each = static_cast<std::int32_t>(one ? 1 : names);
  return all_within(arrays.value_counts, each, each + 1, each) &&
         (!one || std::ranges::all_of(arrays.values, [&](std::int32_t bits) {
           const auto label = std::bit_cast<float>(bits);
           return label >= 0 && label < static_cast<float>(names);
         }));
}

Json json_of(const Places& places) { return {places.count, places.shown}; }

Places places_of(const Json& json) { return {json.at(0), json.at(1).get<std::vector<std::string>>()}; }

Json json_of(const LoadCounts& c) {
  return {c.rows,
          c.truncated,
          c.dropped,
          c.turns,
          c.closed,
          json_of(c.lost),
          json_of(c.unopened),
          json_of(c.begun_twice),
          json_of(c.untrained),
          c.unused,
          c.written};
}

LoadCounts counts_of(const Json& json) {
  return {.rows = json.at(0),
          .truncated = json.at(1),
          .dropped = json.at(2),
          .turns = json.at(3),
          .closed = json.at(4),
          .lost = places_of(json.at(5)),
          .unopened = places_of(json.at(6)),
          .begun_twice = places_of(json.at(7)),
          .untrained = places_of(json.at(8)),
          .unused = json.at(9).get<std::map<std::string, std::vector<std::string>>>(),
          .written = json.at(10).get<std::array<std::int64_t, 4>>()};
}

}  // namespace

PreparedFile::PreparedFile(const DataConfig& config, const std::vector<DatasetConfig>& datasets,
                           const std::string& setting, const LoadContext& context)
    : path_(context.base / *config.dataset_prepared_path /
            (sha256(all_that_decides(config, datasets, setting, context)).substr(0, 32) + ".safetensors")),
      vocab_size_(context.vocab_size),
      seq2seq_(context.seq2seq.has_value()),
      kind_(context.rows.kind),
      wanted_(context.rows.labels),
      datasets_(datasets.size()) {}

void PreparedFile::write(const ReadDatasets& data) const {
  const SampleStore::Arrays arrays = data.store->arrays();
  const Metadata metadata{{"format", kForm},
                          {"files", Json(data.store->files()).dump()},
                          {"bounds", Json(data.bounds).dump()},
                          {"counts", json_of(data.counts).dump()}};
  const std::pair<const char*, const Ints*> parts[] = {
      {"input_ids", &data.store->ids()}, {"labels", &data.store->labels()},
      {"lengths", &arrays.lengths},      {"label_lengths", &arrays.label_lengths},
      {"lines", &arrays.lines},          {"file", &arrays.file},
      {"values", &arrays.values},        {"value_counts", &arrays.value_counts}};
  std::vector<TensorSpec> specs;
  for (const auto& [name, values] : parts) specs.push_back({name, DType::i32, {std::ssize(*values)}});
  std::error_code error;
  fs::create_directories(path_.parent_path(), error);
  if (error)
    throw UserError(Exit::storage,
                    str("data.dataset_prepared_path: ", path_.parent_path().string(), ": ", error.message()));
  write_safetensors(
      path_.string(), specs,
      [&](const TensorSpec& spec) {
        for (const auto& [name, values] : parts)
          if (spec.name == name) return tensor_of(*values);
        throw InternalError("no such part");
      },
      metadata);
}

std::optional<ReadDatasets> PreparedFile::read() const try {
  if (!fs::exists(path_)) return std::nullopt;
  const SafetensorsFile file(path_.string());
  ReadDatasets data;
  std::vector<std::string> files;
  Json counts;
  for (const auto& [name, text] : file.metadata()) {
    if (name == "files") files = Json::parse(text).get<std::vector<std::string>>();
    if (name == "bounds") data.bounds = Json::parse(text).get<std::vector<std::int64_t>>();
    if (name == "counts") counts = Json::parse(text);
  }
  Ints ids = read_ints(file, "input_ids"), labels = read_ints(file, "labels");
  SampleStore::Arrays arrays{read_ints(file, "lengths"), read_ints(file, "label_lengths"),
                             read_ints(file, "lines"),   read_ints(file, "file"),
                             read_ints(file, "values"),  read_ints(file, "value_counts")};
  const auto sum = [](const Ints& n) { return std::accumulate(n.begin(), n.end(), std::int64_t{0}); };
  const auto samples = std::ssize(arrays.lines), sequences = samples * (kind_ == RowKind::pair ? 2 : 1);
  const bool several = has_several_values(kind_);
  const std::int64_t values = several ? sum(arrays.value_counts) : kind_ == RowKind::example ? 0 : samples;
  const bool whole =
      all_within(ids, 0, vocab_size_, 0) && all_within(labels, 0, vocab_size_, kIgnored) &&
      all_within(arrays.lengths, 0, INT32_MAX, 0) && all_within(arrays.label_lengths, 0, INT32_MAX, 0) &&
      all_within(arrays.file, 0, std::ssize(files), 0) && (samples == 0 || !files.empty()) &&
      std::ssize(arrays.lengths) == sequences && std::ssize(arrays.file) == samples &&
      std::ssize(arrays.label_lengths) == (seq2seq_ ? sequences : 0) && std::ssize(arrays.values) == values &&
      std::ssize(arrays.value_counts) == (several ? samples : 0) &&
      all_within(arrays.value_counts, 0, INT32_MAX, 0) &&
      (kind_ != RowKind::rollout || all_within(arrays.value_counts, 1, INT32_MAX, 1)) &&
      (kind_ != RowKind::classified || labels_fit(wanted_, labels, arrays)) &&
      sum(arrays.lengths) == std::ssize(ids) &&
      sum(seq2seq_ ? arrays.label_lengths : arrays.lengths) == std::ssize(labels) &&
      data.bounds.size() == datasets_ + 1 && data.bounds.front() == 0 && data.bounds.back() == samples &&
      std::is_sorted(data.bounds.begin(), data.bounds.end());
  if (!whole) return std::nullopt;
  data.counts = counts_of(counts);
  data.store = std::make_shared<SampleStore>(seq2seq_, kind_, std::move(ids), std::move(labels), arrays,
                                             std::move(files));
  return data;
} catch (const UserError&) {
  return std::nullopt;
} catch (const Json::exception&) {
  return std::nullopt;
}

}  // namespace ft
