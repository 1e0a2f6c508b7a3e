#include "app/assembly/built_model.h"

#include "engine/io/file.h"

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
  if (b.start) b.start->expect(b.attached);
}

// What is to be in 4 bits: what is so in the model's folder, else what the configuration asks for.
std::optional<lora::FourBitPlan> four_bit_plan(const RunConfig& config) {
  const std::string file = join_path(config.model.model_name_or_path, "config.json");
  const auto stored = lora::stored_four_bit_plan(file);
  const bool asked = config.quantization.load_in_4bit;
  if (!stored) return asked ? std::optional(lora::four_bit_plan(config.quantization)) : std::nullopt;
  if (config.finetuning_type == "full")
    throw UserError(Exit::config, str("finetuning_type: the weights of ", config.model.model_name_or_path,
                                      " are in 4 bits and cannot be trained; set it to lora"));
  const auto wanted = lora::four_bit_plan(config.quantization);
  if (asked && (wanted.form != stored->form || wanted.skip != stored->skip))
    throw UserError(Exit::config, str("quantization: ", file,
                                      " says that its weights are already in another 4-bit format; leave out "
                                      "quantization to use them as they are"));
  return stored;
}

}  // namespace

BuiltModel build_model(const RunConfig& config, Weights weights) {
  BuiltModel b;
  b.folder = config.model.model_name_or_path;
  b.dtype = config.training.dtype();
  b.seed = static_cast<std::uint64_t>(config.training.seed);
  auto four_bit = four_bit_plan(config);
  b.made = make_model(join_path(b.folder, "config.json"), b.dtype);
  b.lora = config.finetuning_type == "lora";
  if (weights == Weights::check) b.base = open_model_folder(b.folder);
  if (b.lora) {
    if (const auto& from = config.lora.adapter_name_or_path)
      b.start = std::make_unique<lora::AdapterFolder>(*from);
    b.lora_config = lora_config(config, b.start.get());
    if (b.made.info.decoder) b.lora_config.task_type = "SEQ_2_SEQ_LM";
    const lora::Origin origin =
        b.start ? lora::Origin{b.start->config_file() + ": ", Exit::input, false} : lora::Origin{"lora."};
    b.attached = lora::attach(b.model(), b.lora_config, b.dtype, origin);
  } else if (config.finetuning_type != kNotTrained) {
    lora::train_all(b.model());
  }
  if (four_bit)
    for (const std::string& module : b.made.info.never_quantized) four_bit->skip.push_back(module);
  if (four_bit) b.four_bit.emplace(b.model(), *four_bit, b.base.get());
  if (weights == Weights::check) expect_weights(b);
  return b;
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
