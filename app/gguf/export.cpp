// ft export --to gguf, gguf-lora.
#include "app/gguf/export.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "app/files/merger.h"
#include "app/gguf/types.h"
#include "app/screen/format.h"
#include "app/screen/screen.h"
#include "engine/files/json.h"
#include "models/registry.h"

namespace ft {
namespace {

std::vector<std::int64_t> dims_of(const Shape& s) { return {s.dims, s.dims + s.rank}; }

std::string last_part(const std::string& folder) {
  const auto path = std::filesystem::absolute(folder).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

void require_new_file(const GgufArgs& args) {
  std::error_code none;
  if (std::filesystem::is_directory(args.output, none))
    throw UserError(Exit::config, printable(args.output) + " is a folder; --output is the GGUF file to make");
  if (path_exists(args.output) && !args.overwrite)
    throw UserError(Exit::config, printable(args.output) + " already exists; --overwrite replaces it");
}

void tell(const GgufArgs& args, std::size_t tensors, const std::vector<GgufTensor>& specs) {
  std::int64_t bytes = 0;
  for (const GgufTensor& t : specs) bytes += t.bytes();
  Screen screen(Screen::standard_error());
  screen.line(str("exported  ", show::plural(static_cast<std::int64_t>(tensors), "tensor"), ", ",
                  show::file_size(bytes), " -> ", show::path(args.output), " (GGUF)"));
}

// Returns the tensor's name in GGUF. Throws UserError (input) if there is none.
std::string named(const GgufModel& model, const std::string& name) {
  const auto found = model.name_of(name);
  if (!found) throw UserError(Exit::input, printable(name) + ": GGUF has no name for this tensor");
  return *found;
}

// Returns the model's tensors, each once. Leaves out a tied head if readers of GGUF take the embedding for
// it.
std::vector<TensorSpec> tensors_of(const BuiltModel& built, const GgufModel& model, const Merger& merger) {
  const ModelInfo& info = built.made.info;
  std::vector<TensorSpec> all = merger.specs(DType::f32);
  std::erase_if(all, [&](const TensorSpec& s) {
    return std::find(info.embedding_copies.begin(), info.embedding_copies.end(), s.name) !=
               info.embedding_copies.end() ||
           (s.name == info.head_weight() && info.tied_head && !merger.unties());
  });
  if (!model.tied_head || !info.tied_head || merger.unties()) return all;
  const auto table =
      std::find_if(all.begin(), all.end(), [&](const TensorSpec& s) { return s.name == info.embedding; });
  require(table != all.end(), "a model has an embedding");
  all.push_back({info.head_weight(), DType::f32, table->shape});
  return all;
}

// A tensor of the file: one tensor of the model or a part of one, or the tensors of all experts of a layer.
struct Item {
  std::string name;
  std::vector<TensorSpec> parts;
  const GgufPart* cut = nullptr;  // the part; null: all of it
  bool stacked() const { return !cut && name.ends_with("_exps.weight"); }
  bool vector() const { return name.ends_with("_shexp.weight") && parts[0].shape[0] == 1; }
};

std::vector<Item> items_of(const std::vector<TensorSpec>& from, const GgufModel& model) {
  std::vector<Item> items;
  std::map<std::string, std::size_t> places;
  for (const TensorSpec& s : from) {
    const auto split = model.parts_of(s.name);
    for (const GgufModel::FoundPart& p : split) items.push_back({p.name, {s}, p.part});
    if (!split.empty()) continue;
    const auto [at, fresh] = places.try_emplace(named(model, s.name), items.size());
    if (fresh) items.push_back({at->first, {}, nullptr});
    items[at->second].parts.push_back(s);
  }
  for (Item& item : items)  // in the order of the experts' numbers
    std::ranges::sort(item.parts, {}, [](const TensorSpec& s) { return std::pair(s.name.size(), s.name); });
  return items;
}

// Chooses the types with which a run computed under training.qat: its format for the weights that it
// quantizes, and elsewhere the type of the computation, which holds the other matrices' values exactly.
void choose_trained_types(const QatRun& run, const std::vector<Item>& items,
                          const std::set<std::string>& quantized, std::vector<GgufTensor>& specs) {
  const GgmlType type = gguf_form(name_of(run.format)).type, other = gguf_form(name_of(run.dtype)).type;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const bool coded = quantized.contains(items[i].parts[0].name);
    specs[i].type = gguf_type_of(specs[i], coded ? type : other);
    if (coded && specs[i].type != type)
      throw UserError(Exit::input, str(specs[i].name, ": training.qat quantized it, and GGUF keeps it in ",
                                       form_of(specs[i].type)->name, "; give --dtype"));
  }
}

GgufTensor spec_of(const Item& item, GgmlType type, const Merger& merger) {
  GgufTensor t{item.name, type, dims_of(item.parts[0].shape)};
  if (item.cut) {
    require(item.cut->fits(t.shape), "a tensor that can be cut so");
    t.shape = item.cut->shape_of(t.shape);
    return t;
  }
  if (merger.inputs_first(item.parts[0].name)) std::ranges::reverse(t.shape);
  if (t.shape.size() == 3 && t.shape[1] == 1)
    t.shape.erase(t.shape.begin() + 1);  // a convolution of single columns
  if (item.stacked()) t.shape.insert(t.shape.begin(), std::ssize(item.parts));
  if (item.vector()) t.shape.erase(t.shape.begin());
  return t;
}

void multiply(const Tensor& values, float factor) {
  if (factor != 1) std::for_each_n(values.as<float>(), values.numel(), [&](float& v) { v *= factor; });
}

// Returns the transpose of a matrix, in `room`.
Tensor turned(const Tensor& x, std::vector<float>& room) {
  room.resize(static_cast<std::size_t>(x.numel()));
  const float* from = x.as<float>();
  for (std::int64_t r = 0; r < x.rows(); ++r)
    for (std::int64_t c = 0; c < x.cols(); ++c)
      room[static_cast<std::size_t>(c * x.rows() + r)] = from[r * x.cols() + c];
  return {reinterpret_cast<std::byte*>(room.data()), DType::f32, {x.cols(), x.rows()}};
}

// Returns a part of a tensor's values, in `room`.
Tensor cut_from(const Tensor& whole, const std::vector<std::int64_t>& shape, const GgufPart& part,
                std::vector<float>& room) {
  const GgufPart::Size size = part.size_of(shape);
  std::int64_t count = 0;
  for (const GgufPart::Range& r : part.ranges) count += part.matrices * part.elements(r, size);
  room.resize(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < part.ranges.size(); ++i)
    for (std::int64_t b = 0; b < part.matrices; ++b)
      part.take(part.ranges[i], size, whole.as<float>() + b * size.elements(),
                room.data() + part.place(i, b, size));
  return {reinterpret_cast<std::byte*>(room.data()), DType::f32, {count}};
}

GgufKeys keys_of(const GgufArgs& args, const RunConfig& config, const GgufModel& model,
                 const GgufForm& form) {
  const std::string& tokenizer = args.tokenizer == args.model ? config.model.folder() : args.tokenizer;
  GgufKeys keys{{"general.architecture", model.architecture},
                {"general.type", std::string("model")},
                {"general.name", last_part(args.model)},
                {"general.file_type", form.file_type}};
  if (form.quantized()) keys.emplace_back("general.quantization_version", std::uint32_t{2});
  keys.insert(keys.end(), model.keys.begin(), model.keys.end());
  for (auto& key : gguf_tokenizer_keys(tokenizer, model.vocab_size)) keys.push_back(std::move(key));
  return keys;
}

// Builds the model. Throws UserError (input) if the adapter has more tokens than the base, which GGUF's keys
// describe.
BuiltModel built_for(const GgufArgs& args, const RunConfig& config) {
  BuiltModel built = build_model(config, Weights::check, {}, merge_purpose(config));
  if (built.grown)
    throw UserError(Exit::input, str(args.adapter,
                                     ": it has more tokens than its base; make one model of both "
                                     "with ft merge, and export that"));
  return built;
}

// Throws UserError (config) for a model that scores or embeds texts.
void require_writes(const RunConfig& config) {
  if (config.objective.type->scores)
    throw UserError(Exit::config, str("--model: objective.type ", name_of(config.objective.type),
                                      " trained it, and ft writes GGUF files of models that write texts"));
}

// Throws UserError (input) if llama.cpp would ignore a part of the adapter.
void require_added(const GgufArgs& args, const BuiltModel& built, const GgufModel& model) {
  for (const std::string& module : built.attached.linears)
    if (!model.takes_adapter(module))
      throw UserError(Exit::input, str(args.adapter, ": target_modules: llama.cpp adds no GGUF adapter to ",
                                       module, "; use --to gguf"));
}

// Throws UserError (input) if a GGUF adapter cannot hold all that the adapter changes.
void require_plain_lora(const GgufArgs& args, const BuiltModel& built) {
  for (const Parameter* p : built.attached.whole)
    throw UserError(Exit::input, str(args.adapter, ": ", p->name,
                                     " was fully trained, which a GGUF adapter cannot hold; use --to gguf"));
  if (!built.attached.tokens.empty())
    throw UserError(Exit::input, str(args.adapter,
                                     ": trainable_token_indices: a GGUF adapter cannot hold rows "
                                     "of the embedding; use --to gguf"));
  if (built.attached.embedding)
    throw UserError(Exit::input,
                    str(args.adapter, ": target_modules: an adapter of ", built.attached.embedding_module,
                        " is not exported as a GGUF adapter; use --to gguf"));
  const ModelInfo& info = built.made.info;
  if (info.tied_head && std::ranges::find(built.attached.linears, info.head) != built.attached.linears.end())
    throw UserError(
        Exit::input,
        str(args.adapter, ": target_modules: an adapter of ", info.head,
            ", which shares the embedding's table: the base's GGUF file has no output.weight that "
            "a GGUF adapter could add to; use --to gguf"));
  if (built.lora_config.peft_type != &lora::kinds::kLora)
    throw UserError(Exit::input, str(args.adapter, ": peft_type: a GGUF adapter is LoRA, and this is ",
                                     built.lora_config.peft_type->title, "; use --to gguf with --model"));
  if (built.lora_config.use_dora)
    throw UserError(Exit::input, str(args.adapter,
                                     ": use_dora: a GGUF adapter cannot hold magnitudes; use "
                                     "--to gguf with --model, or ft merge first"));
  if (built.lora_config.alora_invocation_tokens)
    throw UserError(Exit::input, str(args.adapter,
                                     ": alora_invocation_tokens: adapters that act from tokens "
                                     "on are not exported; use ft generate"));
  if (built.lora_config.lora_bias)
    throw UserError(Exit::input, str(args.adapter,
                                     ": lora_bias: a GGUF adapter has A and B alone; use --to "
                                     "gguf with --model"));
  if (!built.attached.experts.empty() || built.attached.single_experts)
    throw UserError(
        Exit::input,
        str(args.adapter, ": target_parameters: adapters of experts are not exported; use --to gguf"));
  if (built.starts->changes_base())
    throw UserError(Exit::input, str(args.adapter,
                                     ": init_lora_weights: a GGUF adapter is for the complete base, and the "
                                     "start of this one subtracted a part from the base; use --to gguf"));
}

}  // namespace

void export_gguf(const GgufArgs& args) {
  require_new_file(args);
  const bool trained = args.qat && args.dtype.empty();
  const GgufForm& form = gguf_form(trained              ? name_of(args.qat->format)
                                   : args.dtype.empty() ? "float16"
                                                        : args.dtype);
  const RunConfig config = merge_config(args.model, args.adapter);
  require_writes(config);
  GgufModel model = make_gguf_model(join_path(config.model.folder(), "config.json"));
  const BuiltModel built = built_for(args, config);
  const GgufKeys keys = keys_of(args, config, model, form);

  Merger merger(built, trained ? std::optional(args.qat->dtype) : std::nullopt);
  const std::vector<TensorSpec> from = tensors_of(built, model, merger);
  const std::vector<Item> items = items_of(from, model);
  std::vector<GgufTensor> specs;
  for (const Item& item : items) specs.push_back(spec_of(item, form.type, merger));
  if (trained)
    choose_trained_types(*args.qat, items, weights_for_qat(built), specs);
  else
    choose_gguf_types(form, model, specs);
  for (const GgufModel::Factors& f : model.rope_factors)
    specs.push_back({f.name, GgmlType::f32, {std::ssize(f.values)}});

  Screen screen(Screen::standard_error());
  Working working(screen, "exporting", "tensors");
  std::size_t next = 0;
  std::vector<float> room;
  const auto values_of = [&](const TensorSpec& s) {
    Tensor values = merger(s);
    const ModelInfo& info = built.made.info;
    if (s.name == info.head_weight() && !merger.unties()) multiply(values, info.head_scale);
    model.to_gguf(s.name, values.as<float>(), values.numel());
    if (merger.inputs_first(s.name)) return turned(values, room);
    model.reorder(s.name, values.as<float>(), s.shape[0], s.shape.numel() / s.shape[0]);
    return values;
  };
  write_gguf(args.output, keys, specs, [&](const GgufTensor& t) {
    working(static_cast<std::int64_t>(next), static_cast<std::int64_t>(specs.size()));
    if (next >= items.size())
      return Tensor(reinterpret_cast<std::byte*>(model.rope_factors[next++ - items.size()].values.data()),
                    DType::f32, {t.shape[0]});
    const Item& item = items[next++];
    if (item.cut) return cut_from(values_of(item.parts[0]), dims_of(item.parts[0].shape), *item.cut, room);
    if (!item.stacked()) return values_of(item.parts[0]);
    room.clear();
    for (const TensorSpec& s : item.parts) {
      const Tensor values = values_of(s);
      room.insert(room.end(), values.as<float>(), values.as<float>() + values.numel());
    }
    return Tensor(reinterpret_cast<std::byte*>(room.data()), DType::f32, {std::ssize(room)});
  });
  screen.clear();
  tell(args, specs.size(), specs);
  if (args.qat && !trained)
    screen.line(str("warning: ", name_of(args.qat->format),
                    " was trained (training.qat), and --dtype asks for other types than those of training; "
                    "leave --dtype out"));
  if (!model.note.empty()) screen.line("warning: " + model.note);
  if (model.ignored_window > 0)
    screen.line(str("warning: GGUF's ", model.architecture,
                    " models have no sliding window; answers differ where a text is longer than ",
                    model.ignored_window, " tokens"));
}

void export_gguf_lora(const GgufArgs& args) {
  require_new_file(args);
  if (args.qat)
    throw UserError(Exit::config,
                    str("--to gguf-lora: training.qat trained ", args.adapter,
                        " for weights that are quantized "
                        "after they are merged, and readers add a GGUF adapter to weights that are quantized "
                        "already; use --to gguf"));
  const GgufForm& form = gguf_form(args.dtype.empty() ? "float32" : args.dtype);
  const RunConfig config = merge_config(args.model, args.adapter);
  require_writes(config);
  const GgufModel model = make_gguf_model(join_path(config.model.folder(), "config.json"));
  const BuiltModel built = built_for(args, config);
  require_plain_lora(args, built);
  require_added(args, built, model);
  const auto alpha = static_cast<float>(built.lora_config.lora_alpha);
  const GgufKeys keys{{"general.architecture", model.architecture}, {"general.type", std::string("adapter")},
                      {"general.name", last_part(args.adapter)},    {"general.file_type", form.file_type},
                      {"adapter.type", std::string("lora")},        {"adapter.lora.alpha", alpha}};
  struct Part {
    const Parameter* parameter;
    std::string weight;  // the part has the order of its rows (B), or of its columns (A)
    bool rows;
    float factor;  // multiplies the values
  };
  std::vector<Part> parts;
  std::vector<GgufTensor> specs;
  for (std::size_t i = 0; i < built.attached.weights.size(); ++i) {
    const std::string weight = built.attached.weights[i], name = named(model, weight);
    const lora::LoraAdapter& l = lora::as_lora(*built.attached.adapters[i]);
    // Readers scale an adapter by alpha / rank. Other factors, such as T5's scale of the head, are multiplied
    // into B.
    const float of_head = weight == built.made.info.head_weight() ? built.made.info.head_scale : 1;
    const float factor = l.scale() * static_cast<float>(l.rank()) / alpha * of_head;
    parts.push_back({&l.a, weight, false, 1});
    parts.push_back({&l.b, weight, true, factor});
    specs.push_back({name + ".lora_a", GgmlType::f32, dims_of(l.a.shape)});
    specs.push_back({name + ".lora_b", GgmlType::f32, dims_of(l.b.shape)});
    for (std::size_t at : {specs.size() - 2, specs.size() - 1})
      specs[at].type = gguf_type_of(specs[at], form.type);
  }
  std::size_t next = 0;
  std::vector<float> values;
  write_gguf(args.output, keys, specs, [&](const GgufTensor&) {
    const Part& part = parts[next++];
    const Shape& shape = part.parameter->shape;
    values.resize(static_cast<std::size_t>(shape.numel()));
    const Tensor y(reinterpret_cast<std::byte*>(values.data()), DType::f32, shape);
    built.start->read(*part.parameter, y, 0);
    if (part.rows) model.reorder_rows(part.weight, values.data(), shape[0], shape[1]);
    if (!part.rows) model.reorder_columns(part.weight, values.data(), shape[0], shape[1]);
    multiply(y, part.factor);
    return y;
  });
  tell(args, specs.size(), specs);
}

}  // namespace ft
