#include "app/files/model_files.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/assembly/class_model.h"
#include "app/files/sentence_files.h"
#include "data/batches/kept_prompts.h"
#include "data/chat/chat_reader.h"
#include "data/tokenizers/tokenizer.h"
#include "engine/files/json.h"
#include "engine/files/safetensors/safetensors_fill.h"
#include "engine/files/safetensors/safetensors_write.h"
#include "lora/adapter.h"
#include "lora/convert.h"
#include "models/text_config.h"

namespace ft {
namespace fs = std::filesystem;
namespace {

// Vocabulary files; a folder with any of them has a tokenizer.
constexpr std::array kVocabularies = {"tokenizer.model", "tokenizer.json", "spiece.model", "vocab.json"};
// Files that may accompany a vocabulary.
constexpr std::array kTokenizerSettings = {
    "merges.txt",        "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json", "chat_template.jinja",   "chat_template.json",
    kPromptsFile};
// Folder of a tokenizer with more chat templates, by their names.
constexpr const char* kMoreTemplates = "additional_chat_templates";
// Files of a model other than weights, config.json and tokenizer.
constexpr std::array kModelSettings = {"generation_config.json", "LICENSE"};

bool is_one_of(const auto& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Returns true for model.safetensors, model-00001-of-00002.safetensors, their index, and
// adapter_model.safetensors.
bool holds_weights(const std::string& name) {
  return (name.starts_with("model") || name.starts_with("adapter_model")) &&
         (name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json"));
}

void copy_if_there(const std::string& from, const std::string& to, const std::string& name) {
  const std::string file = join_path(from, name);
  std::error_code none;
  if (fs::is_regular_file(file, none))
    write_file(join_path(to, name), read_file(file, std::int64_t{256} << 20));
}

std::vector<fs::path> templates_in(const std::string& folder) {
  std::vector<fs::path> out;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(join_path(folder, kMoreTemplates), none))
    if (entry.path().extension() == ".jinja") out.push_back(entry.path());
  return out;
}

// Copies a parameter's values into the tensor of this name.
void copy_values(SafetensorsFiller& filler, const std::string& name, const Parameter& p,
                 const ReadParameter& read) {
  constexpr std::int64_t kAtOnce = 1 << 20;  // elements
  std::vector<float> values(static_cast<std::size_t>(std::min(kAtOnce, p.whole_shape().numel())));
  for (std::int64_t first = 0; first < p.whole_shape().numel(); first += kAtOnce) {
    const std::int64_t n = std::min(kAtOnce, p.whole_shape().numel() - first);
    const Tensor part(reinterpret_cast<std::byte*>(values.data()), lora::read_type(p), {n});
    read(p, part, first);
    filler.write(name, first, part);
  }
}

class AdapterFiles final : public ModelFiles {
 public:
  explicit AdapterFiles(const BuiltModel& b) : built_(b) {}
  void create(const std::string& folder, bool exact) override {
    const std::string name = lora::frozen_head_name(built_.attached);
    const Parameter* head = name.empty() ? nullptr : frozen_head();
    std::vector<TensorSpec> tables;
    for (const Parameter* p : frozen_tables())
      tables.push_back({name_of(*p), built_.dtype, p->whole_shape()});
    lora::create_adapter(folder, built_.lora_config, built_.attached, built_.name,
                         head ? std::optional(built_.dtype) : std::nullopt, tables);
    if (head) copy(*head, folder, name, exact);
    write_sentence_files(folder, built_);
    for (const Parameter* p : frozen_tables()) copy(*p, folder, name_of(*p), exact);
    copy_fixed(folder);
    if (exact && begins_with_gradients()) lora::write_first_factors(folder, built_.attached, first());
  }
  std::int64_t bytes(bool exact) const override {
    std::int64_t all = 0;
    if (exact && begins_with_gradients())
      for (lora::LinearAdapter* l : built_.attached.adapters)
        all += (lora::as_lora(*l).a.whole_shape().numel() + lora::as_lora(*l).b.whole_shape().numel()) *
               size_of(DType::f32);
    EachParameter each([&](Parameter& p) {
      if (p.trainable) all += p.whole_shape().numel() * size_of(DType::f32);
    });
    built_.model().visit(each);
    std::vector<const Parameter*> frozen = frozen_tables();
    if (!lora::frozen_head_name(built_.attached).empty() && frozen_head()) frozen.push_back(frozen_head());
    for (const Parameter* p : frozen) all += p->whole_shape().numel() * size_of(built_.dtype);
    for (const Parameter* p : fixed()) all += p->whole_shape().numel() * size_of(p->dtype);
    return all;
  }
  void complete(const std::string& folder) override {
    const std::vector<const Parameter*> tables = built_.tables();
    const bool shared = built_.made.info.tied_head && tables.size() == 1 && tables[0]->trainable;
    lora::repeat_for_head(folder, built_.attached, shared ? name_of(*tables[0]) : "");
    if (!built_.starts->changes_base()) return;
    lora::make_plain(folder, built_.lora_config, built_.attached, first(), built_.name);
  }
  std::string name_of(const Parameter& p) const override { return lora::peft_name(p, built_.attached); }
  ReadParameter read(const std::string& folder) override {
    auto files = std::make_shared<lora::AdapterFolder>(folder, Exit::checkpoint);
    files->expect(built_.attached, built_.tables());
    return [files](const Parameter& p, Tensor y, std::int64_t first) { files->read(p, y, first); };
  }

 private:
  bool begins_with_gradients() const {
    return lora::start_of(built_.lora_config.init_lora_weights)->init == lora::LoraInit::lora_ga;
  }
  lora::FirstFactors first() const {
    return
        [this](std::size_t i) -> const lora::Factors& { return built_.starts->factors(i, built_.below()); };
  }

  // Returns the head's weight, which may be the embedding's. Null: it is quantized.
  const Parameter* frozen_head() const {
    const Parameter *head = nullptr, *table = nullptr;
    EachParameter each([&](Parameter& p) {
      if (p.name == built_.made.info.head_weight()) head = &p;
      if (p.stored_name() == built_.made.info.embedding) table = &p;
    });
    built_.model().visit(each);
    if (!head && built_.made.info.tied_head) return table;
    const bool coded =
        head && ((built_.four_bit && built_.four_bit->has(*head)) || (built_.fp8 && built_.fp8->has(*head)));
    return coded ? nullptr : head;
  }

  // Returns the frozen tables of an enlarged vocabulary. The adapter's file must hold them, because the base
  // has no values for the new rows.
  std::vector<const Parameter*> frozen_tables() const {
    std::vector<const Parameter*> out = built_.tables();
    std::erase_if(out, [&](const Parameter* p) {
      return !built_.grown || p->trainable || name_of(*p) == lora::frozen_head_name(built_.attached);
    });
    return out;
  }

  std::vector<const Parameter*> fixed() const {
    std::vector<const Parameter*> all;
    for (lora::LinearAdapter* l : built_.attached.adapters)
      for (const Parameter* p : l->fixed()) all.push_back(p);
    return all;
  }
  // Copies the frozen parameters of adapters into the adapter's file.
  void copy_fixed(const std::string& folder) const {
    const std::vector<const Parameter*> all = fixed();
    if (all.empty()) return;
    SafetensorsFiller filler(folder);
    for (const Parameter* p : all) copy_values(filler, name_of(*p), *p, built_.whole_reader());
    filler.sync();
  }

  // Copies a frozen weight into the adapter's file. `exact`: the values that the run computes with; else the
  // values for the plain adapter, whose base keeps its original weights.
  void copy(const Parameter& p, const std::string& folder, const std::string& name, bool exact) const {
    const ReadParameter own = built_.whole_reader();
    SafetensorsFiller filler(folder);
    copy_values(filler, name, p, [&](const Parameter& q, Tensor y, std::int64_t first) {
      if (exact || !built_.starts->changes_base()) return own(q, y, first);
      built_.below().whole.read(q.stored_name(), y, first);
    });
    filler.sync();
  }

  const BuiltModel& built_;
};

class WholeModelFiles final : public ModelFiles {
 public:
  explicit WholeModelFiles(const BuiltModel& b) : built_(b), stacks_(stacks(DType::f32)) {}
  void create(const std::string& folder, bool exact) override {
    const DType dtype = exact ? DType::f32 : built_.dtype;
    write_shards(folder, "model", stacks(dtype).tensors(), {});
    copy_constants(folder);
    Json tied = Json::parse(config_with_dtype(model_config(built_), dtype, built_.rows()));
    write_tying(tied, built_.made.info);
    std::string config = json_text(tied) + "\n";
    if (built_.objective.type->scores)
      config = headed_config(config, built_.objective, built_.made.info, built_.padding);
    write_file(join_path(folder, "config.json"), config);
    write_sentence_files(folder, built_);
  }
  std::int64_t bytes(bool exact) const override {
    std::int64_t all = 0;
    const DType dtype = exact ? DType::f32 : built_.dtype;
    EachParameter each([&](Parameter& p) { all += p.whole_shape().numel() * size_of(stored_as(p, dtype)); });
    built_.model().visit(each);
    return all;
  }
  std::string name_of(const Parameter& p) const override { return stacks_.place_of(p.name).tensor; }
  std::int64_t first_of(const Parameter& p) const override { return stacks_.place_of(p.name).first; }
  ReadParameter read(const std::string& folder) override {
    auto files = std::make_shared<ModelFolder>(folder);
    if (built_.made.info.stacks_experts) files->name_as({.stacks = built_.made.info.stored.stacks});
    EachParameter each([&](Parameter& p) { files->expect(p.name, p.whole_shape()); });
    built_.model().visit(each);
    return [files](const Parameter& p, Tensor y, std::int64_t first) { files->read(p.name, y, first); };
  }

 private:
  Stacks stacks(DType dtype) const {
    std::vector<TensorSpec> specs;
    EachParameter each([&](Parameter& p) {
      specs.push_back({p.name, stored_as(p, dtype), p.whole_shape()});
    });
    built_.model().visit(each);
    return file_stacks(specs, built_.made.info);
  }
  // Copies constant parameters, which the store does not write.
  void copy_constants(const std::string& folder) const {
    std::vector<const Parameter*> constants;
    EachParameter each([&](Parameter& p) {
      if (p.constant) constants.push_back(&p);
    });
    built_.model().visit(each);
    if (constants.empty()) return;
    SafetensorsFiller filler(folder);
    for (const Parameter* p : constants) copy_values(filler, p->name, *p, built_.whole_reader());
    filler.sync();
  }
  static DType stored_as(const Parameter& p, DType dtype) { return p.wide ? DType::f32 : dtype; }

  const BuiltModel& built_;
  const Stacks stacks_;
};

}  // namespace

Stacks file_stacks(const std::vector<TensorSpec>& tensors, const ModelInfo& info) {
  return {tensors, info.stacks_experts ? info.stored.stacks : std::vector<StoredStack>{}};
}

bool is_stacked(const ModelInfo& info, const std::string& weight) {
  return info.stacks_experts && weight.find(".experts.") != std::string::npos;
}

std::unique_ptr<ModelFiles> make_model_files(const BuiltModel& b) {
  if (b.lora) return std::make_unique<AdapterFiles>(b);
  return std::make_unique<WholeModelFiles>(b);
}

Json model_config(const BuiltModel& b) {
  Json j = text_alone(read_json(join_path(b.folder, "config.json")), b.made.info.architecture);
  j.erase("quantization_config");  // written weights are in 16 or 32 bits
  return j;
}

std::string config_with_dtype(Json j, DType dtype, std::optional<std::int64_t> rows) {
  j[j.contains("torch_dtype") ? "torch_dtype" : "dtype"] = name_of(dtype);
  if (rows) j["vocab_size"] = *rows;
  return json_text(j) + "\n";
}

void write_tying(Json& config, const ModelInfo& info) {
  if (info.two_tables && !info.decoder) config["tie_word_embeddings"] = false;
}

bool holds_chat_template(const std::string& tokenizer) {
  std::error_code none;
  const std::string folder = fs::is_directory(tokenizer, none) ? tokenizer : folder_of(tokenizer);
  if (path_exists(join_path(folder, "chat_template.jinja"))) return true;
  const std::string file = join_path(folder, "tokenizer_config.json");
  return path_exists(file) && JsonObject::read(file).has("chat_template");
}

bool holds_tokenizer(const std::string& folder) {
  std::error_code none;
  return std::any_of(kVocabularies.begin(), kVocabularies.end(),
                     [&](const char* name) { return fs::is_regular_file(join_path(folder, name), none); });
}

void copy_tokenizer(const std::string& from, const std::string& to) {
  for (const char* name : kVocabularies) copy_if_there(from, to, name);
  for (const char* name : kTokenizerSettings) copy_if_there(from, to, name);
  for (const fs::path& file : templates_in(from)) {
    std::error_code none;
    fs::create_directories(join_path(to, kMoreTemplates), none);
    copy_if_there(from, to, join_path(kMoreTemplates, file.filename().string()));
  }
}

void copy_companions(const std::string& model, const std::string& tokenizer, const std::string& to) {
  copy_tokenizer(tokenizer, to);
  for (const char* name : kModelSettings) copy_if_there(model, to, name);
}

std::int64_t companion_bytes(const std::string& model, const std::string& tokenizer) {
  std::int64_t all = 0;
  const auto add = [&](const fs::path& file) {
    std::error_code none;
    const auto bytes = fs::file_size(file, none);
    if (!none) all += static_cast<std::int64_t>(bytes);
  };
  for (const char* name : kVocabularies) add(join_path(tokenizer, name));
  for (const char* name : kTokenizerSettings) add(join_path(tokenizer, name));
  for (const fs::path& file : templates_in(tokenizer)) add(file);
  if (model.empty()) return all;
  for (const char* name : kModelSettings) add(join_path(model, name));
  return all;
}

void end_at_turns(const std::string& folder) {
  const auto kept = read_kept_prompts(folder);
  if (!kept || kept->written != Written::chat || !holds_tokenizer(folder)) return;
  if (!path_exists(join_path(folder, "config.json"))) return;
  const auto tokenizer = make_tokenizer(folder);
  DataConfig data;
  data.chat_template = kept->chat_template;
  data.chat_template_kwargs.text = kept->kwargs;
  const auto end = tokenizer->id(ChatReader(data, folder, *tokenizer).end());
  if (!end) return;
  const std::string file = join_path(folder, "generation_config.json");
  const Json model = read_json(join_path(folder, "config.json"));
  Json settings = path_exists(file) ? read_json(file) : Json::object();
  if (settings.empty())  // as programs do that find no such file
    for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id"})
      if (model.contains(key)) settings[key] = model[key];
  Json ends = settings.value("eos_token_id", model.value("eos_token_id", Json()));
  if (ends.is_null()) ends = tokenizer->eos() ? Json(*tokenizer->eos()) : Json::array();
  if (!ends.is_array()) ends = Json::array({ends});
  if (std::find(ends.begin(), ends.end(), Json(*end)) != ends.end()) return;
  ends.push_back(*end);
  settings["eos_token_id"] = ends;
  write_file(file, json_text(settings) + "\n");
}

std::optional<DType> parse_dtype(const std::string& name) {
  for (const DType t : {DType::f32, DType::bf16, DType::f16})
    if (name == name_of(t)) return t;
  if (name.empty()) return std::nullopt;
  throw UserError(Exit::config,
                  str("--dtype: \"", printable(name), "\" is not one of float32, bfloat16, float16"));
}

bool same_place(const std::string& a, const std::string& b) {
  std::error_code none;
  return fs::equivalent(a, b, none) || fs::weakly_canonical(a, none) == fs::weakly_canonical(b, none);
}

void require_other_folder(const std::string& folder, const std::string& setting,
                          const std::vector<std::string>& inputs) {
  for (const std::string& input : inputs)
    if (!input.empty() && same_place(folder, input))
      throw UserError(Exit::config, str(setting, ": ", folder, " is ", input,
                                        ", which is read: its files would be replaced; give another folder"));
}

void require_outside(const std::string& folder, const std::string& setting,
                     const std::vector<std::string>& inputs) {
  std::error_code none;
  const fs::path out = fs::weakly_canonical(folder, none);
  for (const std::string& input : inputs) {
    const fs::path in = fs::weakly_canonical(input, none), inside = in.lexically_relative(out);
    const std::string first = inside.empty() ? "" : inside.begin()->string();
    const bool within = first.starts_with("checkpoint-") || first.starts_with("replaced-run") ||
                        first == "ema" || first == "critic" || first == "rollout_adapter" ||
                        (in.parent_path() == out && fs::is_regular_file(in, none));
    if (!input.empty() && (same_place(folder, input) || within))
      throw UserError(Exit::config, str(setting, ": ", folder, " cannot be overwritten because ", input,
                                        " is read; give another folder"));
  }
}

bool is_result_file(const fs::path& file) {
  const std::string name = file.filename().string();
  std::error_code none;
  if (name == kMoreTemplates)  // the complete folder, if all its files are templates
    return std::ssize(templates_in(file.parent_path().string())) ==
           std::distance(fs::directory_iterator(file, none), fs::directory_iterator());
  return holds_weights(name) || is_sentence_file(file) || name == "config.json" ||
         name == "adapter_config.json" || is_one_of(kVocabularies, name) ||
         is_one_of(kTokenizerSettings, name) || is_one_of(kModelSettings, name);
}

std::vector<fs::path> files_of_result(const std::string& folder) {
  std::error_code none;
  std::vector<fs::path> all;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    if (is_result_file(entry.path()))
      all.push_back(entry.path());
    else if (entry.path().filename() == kMoreTemplates)
      for (const fs::path& file : templates_in(folder)) all.push_back(file);
  }
  return all;
}

void remove_result(const std::string& folder) {
  std::error_code error;
  for (const fs::path& file : files_of_result(folder))
    if (fs::remove_all(file, error); error)
      throw UserError(Exit::storage, str(file.string(), ": cannot be removed: ", error.message()));
}

}  // namespace ft
