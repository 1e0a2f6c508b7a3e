#include "app/assembly/qat.h"

#include <algorithm>
#include <vector>

#include "engine/core/error.h"
#include "engine/files/json.h"
#include "engine/layers/moe.h"
#include "lora/kinds.h"
#include "models/registry.h"

namespace ft {
namespace {

[[noreturn]] void refuse(const std::string& why) {
  throw UserError(Exit::config, str("training.qat: ", why, "; leave training.qat out"));
}

// The linears of the blocks that do not compute in f32.
class BlockLinears final : public Visitor {
 public:
  void unit(std::string_view) override { in_block_ = false; }
  void block(std::string_view) override { in_block_ = true; }
  void experts(Moe&) override { experts_ = true; }
  void linear(Linear& l) override {
    if (in_block_ && !l.wide) all_.push_back(&l);
  }

  const std::vector<Linear*>& all() const { return all_; }
  bool has_experts() const { return experts_; }

 private:
  std::vector<Linear*> all_;
  bool in_block_ = false, experts_ = false;
};

BlockLinears linears_of(const BuiltModel& b) {
  BlockLinears found;
  b.model().visit(found);
  return found;
}

// Describes the model in GGUF. Throws UserError (config) if it cannot be written.
GgufModel gguf_model(const BuiltModel& b) {
  try {
    return make_gguf_model(join_path(b.folder, "config.json"));
  } catch (const UserError& e) {
    refuse(str("the result could not be exported: ", e.what()));
  }
}

// Throws UserError unless the adapter that the run starts from can be merged into the weights in each pass.
// The table in app/config/together_rules.cpp checks new adapters.
void require_merges(const BuiltModel& b) {
  if (!b.start) return;
  const auto no = [&](const std::string& what) {
    throw UserError(Exit::input, str(b.start->config_file(), ": ", what,
                                     ": not with training.qat, which merges plain LoRA into the weights in "
                                     "each pass; leave training.qat out"));
  };
  const lora::LoraConfig& c = b.lora_config;
  if (c.peft_type != &lora::kinds::kLora) no(str("peft_type ", c.peft_type->peft_type));
  if (c.use_dora) no("use_dora");
  if (c.lora_bias) no("lora_bias");
  if (c.alora_invocation_tokens) no("alora_invocation_tokens");
  if (c.lora_dropout > 0 && b.purpose.trains()) no("lora_dropout");
  if (b.starts->changes_base()) no("init_lora_weights");
}

// Throws UserError (config) unless the file will have the weight's rows in the blocks of training.
void require_blocks(const Linear& l, const DenseWeight& w, const GgufModel& gguf) {
  const std::string& name = w.parameter.stored_name();
  if (w.inputs_first()) refuse(str(name, " is stored inputs first, so that its blocks lie across rows"));
  const std::int64_t begin = l.cut == Cut::rows ? l.first : 0;
  if (l.in % kBlockOfCodes != 0 || begin % kBlockOfCodes != 0)
    refuse(str(l.cut == Cut::rows ? "a rank's part of the rows of " : "the rows of ", name, " have ", l.in,
               " elements, and a block has ", kBlockOfCodes));
  const auto parts = gguf.parts_of(name);
  const GgufModel::Permuted* order = gguf.find_permuted(name);
  const bool cut = std::ranges::any_of(parts, [](const GgufModel::FoundPart& p) {
    return p.part->columns || p.part->turned || p.part->form == GgufPart::Form::vectors;
  });
  if (cut || (order && order->columns)) refuse(str("GGUF has ", name, " with its columns in another order"));
  if (parts.empty() && !gguf.name_of(name)) refuse(str("GGUF has no name for ", name));
}

}  // namespace

std::optional<QatRun> qat_of(const std::string& folder) {
  std::string run = join_path(folder, "run.json");
  const std::string average = without_slash(folder);  // RUN/ema
  if (!path_exists(run) && average.ends_with("/ema")) run = join_path(folder_of(average), "run.json");
  if (!path_exists(run)) return {};
  const JsonObject settings = JsonObject::read(run);
  if (!settings.is_object("training")) return {};
  const JsonObject training = settings.object("training");
  if (!training.has("qat")) return {};
  const auto format = value_of<BlockFormat>(training.text("qat"));
  if (!format) training.refuse("qat", "q4_0 or q8_0");
  TrainingConfig t;
  t.fp16 = training.boolean_or("fp16", false);
  if (training.is_bool("bf16")) t.bf16 = training.boolean("bf16");
  return QatRun{*format, t.dtype(settings.text_or("device", "cpu") == "cuda")};
}

std::set<std::string> weights_for_qat(const BuiltModel& b) {
  std::set<std::string> names;
  const BlockLinears found = linears_of(b);
  for (const Linear* l : found.all())
    if (const auto* w = dynamic_cast<const DenseWeight*>(l->weight.get()))
      names.insert(w->parameter.stored_name());
  return names;
}

void quantize_in_passes(const BuiltModel& b, const RunConfig& config) {
  if (!config.training.qat) return;
  const BlockLinears found = linears_of(b);
  if (b.objective.type->scores)
    refuse(str("ft writes GGUF files of models that write texts, and objective.type is ",
               name_of(b.objective.type)));
  if (b.lora && b.grown) refuse("a GGUF file has no tokens that an adapter adds to its base's");
  if (found.has_experts()) refuse("experts are not quantized in training yet");
  require_merges(b);
  const GgufModel gguf = gguf_model(b);
  for (Linear* l : found.all()) {
    const auto* dense = dynamic_cast<const DenseWeight*>(l->weight.get());
    if (!dense) refuse(str("the weight of ", l->name, " is in 4 or 8 bits; train the model in 16 bits"));
    require_blocks(*l, *dense, gguf);
    l->fake_format = config.training.qat;
  }
}

}  // namespace ft
