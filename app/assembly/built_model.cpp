#include "app/assembly/built_model.h"

#include <algorithm>

#include "app/assembly/param_groups.h"
#include "app/assembly/vocabulary.h"
#include "data/efficiency/schedule.h"
#include "engine/io/file.h"
#include "engine/io/grown_weights.h"

namespace ft {
namespace {

// With an adapter to start from its configuration holds.
lora::LoraConfig lora_config(const RunConfig& config, const lora::AdapterFolder* start) {
  if (!start) return config.lora;
  lora::LoraConfig c = start->config();
  c.adapter_name_or_path = config.lora.adapter_name_or_path;
  return c;
}

void expect_weights(BuiltModel& b) {
  EachParameter each([&](Parameter& p) {
    if (p.name.starts_with(lora::kPeftPrefix) || (b.four_bit && b.four_bit->has(p))) return;
    b.base->expect(p.stored_name(), p.shape);
  });
  b.model().visit(each);
  if (b.four_bit) b.four_bit->expect(*b.base);
  if (b.start) b.start->expect(b.attached, b.tables());
}

// What an adapter's list of linears comes to, beside all-linear in the configuration.
void require_all_linear(const BuiltModel& b) {
  const auto other = make_model(join_path(b.folder, "config.json"), b.dtype);
  lora::LoraConfig all = b.lora_config;
  all.target_modules = "all-linear";
  const auto& adapted = b.attached.linears;
  for (const std::string& name :
       lora::attach(*other.model, all, b.dtype, origin_of(b.made.info, nullptr)).linears)
    if (std::find(adapted.begin(), adapted.end(), name) == adapted.end())
      throw UserError(Exit::config,
                      str("lora.target_modules: is all-linear, and ", b.start->config_file(), " leaves out ",
                          name, "; leave target_modules out to go on with that adapter"));
}

// What is to be in 4 bits: what is so in the model's folder, else what the configuration asks for.
std::optional<lora::FourBitPlan> four_bit_plan(const RunConfig& config) {
  const std::string file = join_path(config.model.folder(), "config.json");
  const auto stored = lora::stored_four_bit_plan(file);
  const bool asked = config.quantization.load_in_4bit;
  if (!stored) return asked ? std::optional(lora::four_bit_plan(config.quantization)) : std::nullopt;
  if (config.trains && config.finetuning_type == FinetuningType::full)
    throw UserError(Exit::config, str("finetuning_type: the weights of ", config.model.model_name_or_path,
                                      " are in 4 bits and cannot be trained; set it to lora"));
  const auto wanted = lora::four_bit_plan(config.quantization);
  if (asked && (wanted.form != stored->form || wanted.skip != stored->skip))
    throw UserError(Exit::config, str("quantization: ", file,
                                      " says that its weights are already in another 4-bit format; leave out "
                                      "quantization to use them as they are"));
  return stored;
}

// Frozen values that are to live in files and are in the model's as they are need no copy.
void find_stored(BuiltModel& b, const WeightSource& base) {
  EachParameter each([&](Parameter& p) {
    const bool others = p.name.starts_with(lora::kPeftPrefix) || (b.start && b.start->has(p)) ||
                        (b.four_bit && b.four_bit->has(p));
    if (!p.trainable && !others) p.stored = base.find_stored(p.stored_name(), p.dtype, p.shape.numel());
  });
  b.model().visit(each);
  if (b.four_bit) b.four_bit->find_stored(base);
}
// A plan needs no weights; where there are some it is that of the run.
void find_stored(BuiltModel& b) {
  if (b.base) return find_stored(b, *b.base);
  const std::string single = join_path(b.folder, "model.safetensors");
  if (path_exists(single) || path_exists(single + ".index.json"))
    find_stored(b, *open_model_folder(b.folder, b.made.info.stored));
}

// Rows for tokens that the model's files do not have, as the settings ask, or the adapter has them.
void grow(BuiltModel& b, const RunConfig& config) {
  const std::int64_t own = b.made.info.vocab_size,
                     held = b.start ? b.start->rows_of(b.made.info.embedding) : 0,
                     rows = std::max(vocabulary_size(config, own), held);
  b.grown = rows > own;
  if (!b.grown) return;
  resize_vocabulary(b.made, rows);
  if (b.base) b.base = std::make_unique<GrownWeights>(std::move(b.base), weights_by_token(b.made.info), rows);
}

}  // namespace

lora::Origin origin_of(const ModelInfo& info, const lora::AdapterFolder* start) {
  lora::Origin origin =
      start ? lora::Origin{start->config_file() + ": ", Exit::input, false} : lora::Origin{"lora."};
  origin.head = info.head;
  origin.embedding = info.embedding.substr(0, info.embedding.rfind('.'));
  return origin;
}

lora::FourBitPlan plan_of(const ModelInfo& info, lora::FourBitPlan plan) {
  std::ranges::replace(plan.skip, "lm_head", info.head);
  plan.skip.insert(plan.skip.end(), info.never_quantized.begin(), info.never_quantized.end());
  return plan;
}

BuiltModel build_model(const RunConfig& config, Weights weights) {
  BuiltModel b;
  b.name = config.model.model_name_or_path;
  b.folder = config.model.folder();
  b.dtype = config.dtype();
  b.seed = static_cast<std::uint64_t>(config.training.seed);
  auto four_bit = four_bit_plan(config);
  b.made = make_model(join_path(b.folder, "config.json"), b.dtype);
  b.model().set_sparse_attention(config.model.sparse_attention);
  b.lora = config.finetuning_type == FinetuningType::lora &&
           (config.trains || config.lora.adapter_name_or_path.has_value());
  if (weights == Weights::check) b.base = open_model_folder(b.folder, b.made.info.stored);
  if (const auto& from = config.lora.adapter_name_or_path; b.lora && from)
    b.start = std::make_unique<lora::AdapterFolder>(*from);
  grow(b, config);
  if (b.lora) {
    b.lora_config = lora_config(config, b.start.get());
    if (b.made.info.decoder) b.lora_config.task_type = "SEQ_2_SEQ_LM";
    b.attached = lora::attach(b.model(), b.lora_config, b.dtype, origin_of(b.made.info, b.start.get()));
    if (config.lora.expects_all_linear) require_all_linear(b);
  } else if (config.trains) {
    lora::train_all(b.model());
  }
  if (config.trains) set_update_rules(b.model(), config.training);
  if (four_bit) {
    b.four_bit.emplace(b.model(), plan_of(b.made.info, std::move(*four_bit)), b.base.get());
    b.attached.inputs_first = false;  // what PEFT finds then is a Linear4bit
  }
  if (weights == Weights::check) expect_weights(b);
  if (config.zero_optimization.offload_param.device == OffloadDevice::nvme) find_stored(b);
  if (config.trains && has_random_ltd(config.data_efficiency)) {
    const RandomLtdConfig& ltd = config.data_efficiency.data_routing.random_ltd;
    b.model().drop_tokens(ltd.random_ltd_layer_id, ltd.model_type == RandomLtdModel::encoder,
                          ltd.total_layer_num);
  }
  return b;
}

std::vector<const Parameter*> BuiltModel::tables() const {
  std::vector<const Parameter*> out;
  EachParameter each([&](Parameter& p) {
    if (p.name == made.info.embedding || p.name == made.info.head_weight()) out.push_back(&p);
  });
  model().visit(each);
  return out;
}

ReadParameter BuiltModel::reader() const {
  return [this](const Parameter& p, Tensor y, std::int64_t first) {
    if (four_bit && four_bit->has(p))
      four_bit->read(*base, p, y, first);
    else if (start && start->has(p))
      start->read(p, y, first);
    else if (p.name.starts_with(lora::kPeftPrefix))
      lora::initialize(p, lora_config.init_lora_weights, Random{seed}.with("init"), y, first);
    else
      base->read(p.stored_name(), y, first);
  };
}

}  // namespace ft
