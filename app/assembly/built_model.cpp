#include "app/assembly/built_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "app/assembly/class_model.h"
#include "app/assembly/experts.h"
#include "app/assembly/folded_adapter.h"
#include "app/assembly/fp8_products.h"
#include "app/assembly/param_groups.h"
#include "app/assembly/pipeline_parallel.h"
#include "app/assembly/qat.h"
#include "app/assembly/reward_model.h"
#include "app/assembly/shared_layers.h"
#include "app/assembly/vocabulary.h"
#include "app/config/gguf_base.h"
#include "app/screen/screen.h"
#include "data/efficiency/schedule.h"
#include "engine/files/file.h"
#include "engine/files/safetensors/grown_weights.h"
#include "engine/train/objectives/list.h"
#include "lora/convert.h"
#include "models/gguf/gguf_config.h"

namespace ft {
namespace {

// Returns the configuration of the adapter that the run starts from, else that in the run's settings.
lora::LoraConfig lora_config(const RunConfig& config, const lora::AdapterFolder* start) {
  if (!start) return config.lora;
  lora::LoraConfig c = start->config();
  c.adapter_name_or_path = config.lora.adapter_name_or_path;
  return c;
}

// Returns true if p belongs to a weight in 4 or 8 bits, which is read separately.
bool is_coded(const BuiltModel& b, const Parameter& p) {
  return (b.four_bit && b.four_bit->has(p)) || (b.fp8 && b.fp8->has(p)) || (b.int8 && b.int8->has(p)) ||
         b.coded_stacks.contains(p.name);
}

void expect_weights(BuiltModel& b) {
  EachParameter each([&](Parameter& p) {
    if (p.name.starts_with(lora::kPeftPrefix) || is_coded(b, p)) return;
    if (b.is_score(p) && !b.base->has(p.name) && (b.purpose.trains() || b.start))
      return;  // a new score is random, an adapter's is in its files
    b.base->expect(p.stored_name(), p.shape);
  });
  b.model().visit(each);
  if (b.four_bit) b.four_bit->expect(*b.base);
  if (b.fp8) b.fp8->expect(*b.base);
  if (b.int8) b.int8->expect(*b.base);
  expect_stacks(b);
  if (b.lora && !b.start && lora::start_of(b.lora_config.init_lora_weights)->init == lora::LoraInit::loftq &&
      !b.four_bit)
    throw UserError(Exit::config,
                    "lora.init_lora_weights: loftq makes up for what 4 bits lose; set "
                    "quantization.load_in_4bit=true, or another start");
  if (b.start) b.start->expect(b.attached, b.tables());
}

// Throws UserError (config) if lora.target_modules is all-linear and the adapter that the run starts from
// leaves out a linear.
void require_all_linear(const BuiltModel& b) {
  const auto other = make_model(join_path(b.folder, "config.json"), b.dtype);
  lora::LoraConfig all = b.lora_config;
  all.target_modules = "all-linear";
  all.target_parameters.reset();
  const lora::Origin origin = origin_of(b.made.info, nullptr);
  all = lora::with_expert_parameters(*other.model, all, origin.head, origin.prefix, origin.exit);
  const auto names = [](const lora::Attached& a) {
    std::vector<std::string> found = a.linears;
    for (const lora::ExpertPart& part : a.experts) found.push_back(part.weight);
    return found;
  };
  const auto adapted = names(b.attached);
  for (const std::string& name : names(lora::attach(*other.model, all, b.dtype, origin)))
    if (std::find(adapted.begin(), adapted.end(), name) == adapted.end())
      throw UserError(Exit::config,
                      str("lora.target_modules: is all-linear, and ", b.start->config_file(), " leaves out ",
                          name, "; leave target_modules out to go on with that adapter"));
}

// Returns the plan of weights in 4 bits: the model's if its files hold such weights, else the
// configuration's; empty: no weights in 4 bits. Throws UserError (config) if the configuration contradicts
// the files.
std::optional<lora::FourBitPlan> four_bit_plan(const RunConfig& config, const Purpose& purpose) {
  const std::string file = join_path(config.model.folder(), "config.json");
  const auto stored = lora::stored_four_bit_plan(file);
  const bool asked = config.quantization.load_in_4bit;
  if (stored && purpose.int8 == Int8Part::linears)
    throw UserError(Exit::config, str("--quantize int8: the weights of ", config.model.model_name_or_path,
                                      " are in 4 bits already; leave it out to use them as they are"));
  if (!stored) return asked ? std::optional(lora::four_bit_plan(config.quantization)) : std::nullopt;
  if (purpose.trains() && config.finetuning_type == FinetuningType::full)
    throw UserError(Exit::config, str("finetuning_type: the weights of ", config.model.model_name_or_path,
                                      " are in 4 bits and cannot be trained; set it to lora"));
  const auto wanted = lora::four_bit_plan(config.quantization);
  if (asked &&
      purpose.sums == Sums::in_any_order) {  // --quantize with the folder's own type: only faster sums
    const FourBitBook book = stored->form.book;
    if (wanted.form.book != book)
      throw UserError(Exit::config, str("--quantize ", name_of(wanted.form.book), ": the weights of ",
                                        config.model.model_name_or_path, " are in ", name_of(book),
                                        " already; use --quantize ", name_of(book), " or leave it out"));
    const auto usual = lora::four_bit_plan({.bnb_4bit_quant_type = book});
    if (wanted.form == usual.form && wanted.skip == usual.skip) return stored;
  }
  if (asked && (wanted.form != stored->form || wanted.skip != stored->skip))
    throw UserError(Exit::config, str("quantization: ", file,
                                      " says that its weights are already in another 4-bit format; leave out "
                                      "quantization to use them as they are"));
  return stored;
}

// Returns the plan of weights in FP8: the model's if its files hold such weights, else the configuration's;
// empty: no weights in FP8. Throws UserError (config) if the configuration contradicts the files.
std::optional<lora::Fp8Plan> fp8_plan(const RunConfig& config, const Purpose& purpose, bool four_bit) {
  const auto stored = lora::stored_fp8_plan(join_path(config.model.folder(), "config.json"));
  const bool asked = config.model.frozen_dtype == FrozenType::fp8;
  const std::string& name = config.model.model_name_or_path;
  if (!stored) {
    if (asked && four_bit)
      throw UserError(Exit::config, str("model.frozen_dtype: the weights of ", name,
                                        " are in 4 bits already; leave it out to use them as they are"));
    return asked ? std::optional(lora::Fp8Plan{.skip = {"lm_head"}}) : std::nullopt;
  }
  if (four_bit || purpose.int8 == Int8Part::linears)
    throw UserError(Exit::config,
                    str(four_bit ? "quantization.load_in_4bit" : "--quantize int8", ": the weights of ", name,
                        " are in FP8 already; leave it out to use them as they are"));
  if (purpose.trains() && config.finetuning_type == FinetuningType::full)
    throw UserError(Exit::config, str("finetuning_type: the weights of ", name,
                                      " are in FP8 and cannot be trained; set it to lora"));
  return stored;
}

// Returns the linears of the model that are in FP8. A plan that ignores the weights still reads the headers
// of files that are there, which know best, also without quantization_config.
lora::Fp8Weights fp8_weights(BuiltModel& b, const lora::Fp8Plan& plan) {
  const lora::Fp8Plan complete = plan_of(b.made.info, plan);
  const std::string single = join_path(b.folder, "model.safetensors");
  if (b.base || !(path_exists(single) || path_exists(single + ".index.json")))
    return {b.model(), complete, b.base.get()};
  return {b.model(), complete, open_model_folder(b.folder, b.made.info.stored).get()};
}

// Finds the frozen parameters that the model's files hold in the run's dtype. A run that offloads parameters
// to files (nvme) reads them there and makes no copy.
void find_stored(BuiltModel& b, const WeightSource& base) {
  EachParameter each([&](Parameter& p) {
    const bool others =
        p.name.starts_with(lora::kPeftPrefix) || (b.start && b.start->has(p)) || is_coded(b, p);
    if (!p.trainable && !others) p.stored = base.find_stored(p.stored_name(), p.dtype, p.shape.numel());
  });
  b.model().visit(each);
  if (b.four_bit) b.four_bit->find_stored(base);
  if (b.fp8) b.fp8->find_stored(base);
}
// Finds them in the model's folder if no weights are open, so that a plan equals the run's. Without weights
// in the folder, a plan counts copies.
void find_stored(BuiltModel& b) {
  if (b.base) return find_stored(b, *b.base);
  const std::string single = join_path(b.folder, "model.safetensors");
  if (path_exists(single) || path_exists(single + ".index.json"))
    find_stored(b, *open_model_folder(b.folder, b.made.info.stored));
}

// Describes, for a warning, the type to which quantized weights of a GGUF file are converted.
std::string made_of_quantized(const RunConfig& config, const Purpose& purpose) {
  if (config.quantization.load_in_4bit)
    return str("quantized again, to ", name_of(config.quantization.bnb_4bit_quant_type));
  if (config.model.frozen_dtype == FrozenType::fp8) return "quantized again, to fp8";
  if (purpose.int8 == Int8Part::linears) return "quantized again, to int8";
  const DType type = config.dtype();
  return str("dequantized to ", type == DType::bf16 ? "bf16" : type == DType::f16 ? "f16" : "f32");
}

std::unique_ptr<WeightSource> open_base(BuiltModel& b, const RunConfig& config) {
  if (!config.model.unpacked) return open_model_folder(b.folder, b.made.info.stored);
  auto base = std::make_unique<GgufWeights>(b.name, join_path(b.folder, "config.json"));
  if (base->is_quantized())
    b.warnings.push_back(gguf_warning(b.name, base->types(), made_of_quantized(config, b.purpose)));
  return base;
}

// Opens the adapter that the run starts from, or folds it into the weights. coded: see fold_adapter().
void open_adapter(BuiltModel& b, const std::string& folder, const std::string& coded) {
  if (b.purpose.work == Work::compute && lora::is_folded(folder)) return fold_adapter(b, folder, coded);
  b.start = std::make_unique<lora::AdapterFolder>(folder);
}

// Adds rows for tokens that the model's files do not have: as many as the settings ask for or the adapter
// holds.
void grow(BuiltModel& b, const RunConfig& config) {
  const std::int64_t own = b.made.info.vocab_size,
                     held = b.start ? b.start->rows_of(b.made.info.embedding, b.made.info.head_weight()) : 0,
                     rows = std::max(vocabulary_size(config, own), held);
  b.grown = rows > own;
  if (!b.grown) return;
  if (b.start && b.made.info.tied_head)
    b.start->share_table(b.model().vocabulary().embedding.weight.name, b.made.info.head_weight());
  resize_vocabulary(b.made, rows);
  if (b.base) b.base = std::make_unique<GrownWeights>(std::move(b.base), weights_by_token(b.made.info), rows);
}

// Throws UserError if the adapters begin with olora or loftq and weights are stored as (in, out), because
// PEFT reads them as (out, in). The exit is input if an adapter's file asks for this start, else config.
void require_outputs_first(const BuiltModel& b, const lora::LoraStart& start) {
  if (!b.attached.inputs_first ||
      (start.init != lora::LoraInit::olora && start.init != lora::LoraInit::loftq))
    return;
  throw UserError(
      b.start ? Exit::input : Exit::config,
      str(b.start ? b.start->config_file() + ": " : "lora.",
          "init_lora_weights: neither olora nor loftq is for weights that are stored inputs first, as "
          "this model's are; pissa and the others are"));
}

// Throws UserError (config) if EVA or LoRA-GA cannot observe an adapted linear: it needs inputs with a row
// for each token.
void require_watchable(const BuiltModel& b) {
  const auto refuse = [&](const std::string& what) {
    throw UserError(Exit::config, str("lora.init_lora_weights: ",
                                      name_of(lora::start_of(b.lora_config.init_lora_weights)->init),
                                      " is not for ", what));
  };
  if (b.made.info.decoder) refuse("encoder-decoders");
  if (b.attached.single_experts) refuse("linears of single experts; leave them out of lora.target_modules");
  for (const std::string& name : b.attached.linears)
    if (name == b.made.info.head) refuse("the head; leave it out of lora.target_modules");
}

// Takes the part out of the base that the adapters' initial values replace.
void reduce_base(BuiltModel& b) {
  if (b.starts->changes_base() && b.base)
    b.base = std::make_unique<lora::ReducedBase>(std::move(b.base), b.starts);
}

// Makes the adapters' initial values, and reduces the base unless the data decides the values.
// coded: setting under which the model's files hold coded weights already; empty: they do not.
void make_starts(BuiltModel& b, const std::string& coded) {
  const lora::LoraStart start = lora::start_of(b.lora_config.init_lora_weights).value();
  const bool fresh = !b.start;
  const bool held = !fresh && start.init == lora::LoraInit::lora_ga;  // in a file beside the adapter
  b.starts = std::make_shared<const lora::Starts>(
      b.attached, start, Random{b.seed}.with("init"),
      held ? lora::read_first_factors(*b.lora_config.adapter_name_or_path, b.attached, Exit::input)
           : std::vector<lora::Factors>{});
  require_outputs_first(b, start);
  if (begins_from_data(b)) require_watchable(b);
  if (!start.changes_base() && !(fresh && start.init == lora::LoraInit::loftq)) return;
  const auto refuse = [&](const std::string& what) {
    throw UserError(fresh ? Exit::config : Exit::input,
                    str(fresh ? "lora." : b.start->config_file() + ": ", "init_lora_weights: ", what));
  };
  if (!coded.empty())
    refuse("needs the weights that a model had before they were quantized; give that model, and set " +
           coded);
  if (!fresh && start.iterations > 0)
    refuse(
        "the random subspace that pissa_niter_N took from the base is not in the file; use the result of the "
        "run, or convert the adapter where it was made (save_pretrained with "
        "path_initial_model_for_weight_conversion)");
  if (!begins_from_data(b)) reduce_base(b);
}

// Throws UserError if an adapter of the head changes the base (pissa, olora) or uses DoRA, and the head
// shares the embedding's table: both need a separate weight. The exit is input if an adapter's file asks for
// it, else config.
void require_own_weights(const BuiltModel& b) {
  const bool changes = lora::start_of(b.lora_config.init_lora_weights).value().changes_base();
  if (!b.made.info.tied_head || !(changes || b.lora_config.use_dora)) return;
  for (const std::string& name : b.attached.linears)
    if (name == b.made.info.head)
      throw UserError(b.start ? Exit::input : Exit::config,
                      str(b.start ? b.start->config_file() + ": " : "lora.",
                          changes ? "init_lora_weights" : "use_dora", ": ", name,
                          " has the embedding's table, not a weight of its own; leave it out of "
                          "target_modules"));
}

// Sets PEFT's task type of models without a head. Throws UserError if the adapter's start changes the base:
// PEFT writes such a base under other names.
void embed_with(lora::LoraConfig& c) {
  if (lora::start_of(c.init_lora_weights).value().changes_base())
    throw UserError(
        Exit::config,
        "lora.init_lora_weights: pissa, olora and lora_ga change the base's weights, which is not "
        "for objective.type embed; leave it out");
  c.task_type = "FEATURE_EXTRACTION";
}

// Sets PEFT's task type for the objective. A head that gives scores is trained in full.
void choose_task(BuiltModel& b) {
  if (b.objective.type == &objectives::kEmbed)
    embed_with(b.lora_config);
  else if (b.objective.type->scores)
    train_score(b.lora_config, b.made.info.head, b.padding ? "SEQ_CLS" : "TOKEN_CLS");
}

void warn_of_model(BuiltModel& b) {
  if (b.made.info.two_tables)
    b.warnings.push_back(str(b.name,
                             ": config.json says tie_word_embeddings, but its files hold two different "
                             "tables, ",
                             b.made.info.embedding, " and ", b.made.info.head_weight(),
                             "; both are used, as transformers does"));
  if (!b.made.info.note.empty()) b.warnings.push_back(b.name + ": " + b.made.info.note);
}

// Reads elements of a random score matrix from `first` on: normal, like transformers' new heads.
void random_score(Random random, double deviation, Tensor y, std::int64_t first) {
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    const auto bits = random.at(static_cast<std::uint64_t>(first + i));
    const double radius = deviation * std::sqrt(-2 * std::log(to_uniform(bits[0])));
    y.as<float>()[i] = static_cast<float>(radius * std::cos(2 * std::numbers::pi * to_uniform(bits[1])));
  }
}

// Gives the model's linears coded weights; empty plans: none in 4 bits, none in FP8.
void quantize_linears(BuiltModel& b, const std::optional<lora::FourBitPlan>& four_bit,
                      const std::optional<lora::Fp8Plan>& fp8) {
  if (four_bit) {
    b.four_bit.emplace(b.model(), plan_of(b.made.info, *four_bit), b.base.get());
    b.attached.inputs_first = false;  // what PEFT finds then is a Linear4bit
  }
  if (fp8) b.fp8.emplace(fp8_weights(b, *fp8));
  if (b.purpose.int8 == Int8Part::linears)
    b.int8.emplace(b.model(), b.made.info.never_quantized);
  else if (b.purpose.int8 == Int8Part::head)
    b.int8.emplace(Int8Weights::of_head(b.model(), b.made.info.head, b.made.info.never_quantized));
}

}  // namespace

void show_warnings(Screen& screen, const BuiltModel& b) {
  for (const std::string& text : b.warnings) screen.line("warning: " + text);
}

lora::Origin origin_of(const ModelInfo& info, const lora::AdapterFolder* start) {
  lora::Origin origin =
      start ? lora::Origin{start->config_file() + ": ", Exit::input, false} : lora::Origin{"lora."};
  origin.head = info.head;
  origin.single_experts = start && start->has_single_experts();
  origin.embedding = info.embedding.substr(0, info.embedding.rfind('.'));
  origin.tied_head = info.tied_head;
  origin.one_embedding = !info.decoder;
  origin.nested = info.peft_nested;
  return origin;
}

bool begins_from_data(const BuiltModel& b) {
  const auto init = lora::start_of(b.lora_config.init_lora_weights)->init;
  return b.lora && !b.start && (init == lora::LoraInit::eva || init == lora::LoraInit::lora_ga);
}

void begin_as(BuiltModel& b, const RunConfig& config, const lora::LoraConfig& adapters,
              std::vector<lora::Factors> given) {
  b.lora_config = adapters;
  lora::attach_again(b.model(), b.attached, adapters, b.dtype, origin_of(b.made.info, nullptr));
  b.starts =
      std::make_shared<const lora::Starts>(b.attached, lora::start_of(adapters.init_lora_weights).value(),
                                           Random{b.seed}.with("init"), std::move(given));
  reduce_base(b);
  if (b.starts->changes_base() && config.zero_optimization.offload_param.device == OffloadDevice::nvme)
    find_stored(b);  // the reduced weights are in no file
  set_update_rules(b.model(), config.training);
}

BuiltModel build_model(const RunConfig& config, Weights weights, const ModelPart& part,
                       const Purpose& purpose) {
  BuiltModel b;
  b.purpose = purpose;
  b.name = config.model.model_name_or_path;
  b.folder = config.model.folder();
  b.dtype = config.dtype();
  b.seed = static_cast<std::uint64_t>(config.training.seed);
  const auto four_bit = four_bit_plan(config, purpose);
  const auto fp8 = fp8_plan(config, purpose, four_bit.has_value());
  b.made = make_model(join_path(b.folder, "config.json"), b.dtype);
  warn_of_model(b);
  b.objective = config.objective;
  b.longest = config.data.max_seq_length;
  if (config.objective.type->scores) {
    b.made.info.writes = false;
    replace_head(b.made, b.objective, join_path(b.folder, "config.json"));
    if (b.scores_texts()) b.padding = padding_token(config.model);
  }
  b.model().set_sparse_attention(config.model.sparse_attention);
  b.lora = config.finetuning_type == FinetuningType::lora &&
           (purpose.trains() || config.lora.adapter_name_or_path.has_value());
  if (weights == Weights::check) b.base = open_base(b, config);
  if (const auto& from = config.lora.adapter_name_or_path; b.lora && from)
    open_adapter(b, *from, four_bit && four_bit->stored ? "in 4 bits" : fp8 && fp8->stored ? "in FP8" : "");
  grow(b, config);
  if (b.lora) {
    b.lora_config = lora_config(config, b.start.get());
    if (b.made.info.decoder) b.lora_config.task_type = "SEQ_2_SEQ_LM";
    choose_task(b);
    const lora::Origin origin = origin_of(b.made.info, b.start.get());
    if (!b.start)
      b.lora_config =
          lora::with_expert_parameters(b.model(), b.lora_config, origin.head, origin.prefix, origin.exit);
    b.attached = lora::attach(b.model(), b.lora_config, b.dtype, origin);
    if (config.objective.type == &objectives::kEmbed) b.attached.bare = b.made.info.stored.prefix;
    if (purpose.trains() && b.attached.single_experts && b.lora_config.lora_dropout > 0)
      throw UserError(
          origin.exit,
          origin.prefix + "lora_dropout: adapters of single experts are trained without; set it to 0");
    const std::vector<std::string> ignored = b.start ? b.start->warnings() : std::vector<std::string>{};
    b.warnings.insert(b.warnings.end(), ignored.begin(), ignored.end());
    b.warnings.insert(b.warnings.end(), b.attached.warnings.begin(), b.attached.warnings.end());
    if (purpose.trains() && b.attached.tied_lora && b.lora_config.lora_dropout > 0)
      throw UserError(origin.exit, origin.prefix +
                                       "lora_dropout: not with an adapter that ensure_weight_tying lets the "
                                       "head share; set it to 0");
    if (config.lora.expects_all_linear) require_all_linear(b);
    require_own_weights(b);
    make_starts(b, four_bit && four_bit->stored ? "quantization.load_in_4bit=true"
                   : fp8 && fp8->stored         ? "model.frozen_dtype=fp8"
                                                : "");
  } else if (purpose.trains()) {
    lora::train_all(b.model());
  }
  if (purpose.trains()) set_update_rules(b.model(), config.training);
  quantize_linears(b, four_bit, fp8);
  keep_stacks_coded(b);
  if (weights == Weights::check) expect_weights(b);
  if (const auto noise = config.training.neftune_noise_alpha; noise && purpose.trains())
    if (!b.model().set_embedding_noise(*noise))
      throw UserError(Exit::config, "training.neftune_noise_alpha: not for encoder-decoders; leave it out");
  if (config.zero_optimization.offload_param.device == OffloadDevice::nvme) find_stored(b);
  if (purpose.trains() && has_random_ltd(config.data_efficiency)) {
    const RandomLtdConfig& ltd = config.data_efficiency.data_routing.random_ltd;
    b.model().drop_tokens(ltd.random_ltd_layer_id, ltd.model_type == RandomLtdModel::encoder,
                          ltd.total_layer_num);
  }
  limit_experts(b, config);
  if (!part.whole())
    b.whole = std::make_unique<BuiltModel>(build_model(config, Weights::ignore, {}, purpose));
  share_layers(b, config, part.tensor);
  multiply_in_fp8(b, config);
  quantize_in_passes(b, config);
  deal_experts(b, config, part.experts);
  keep_stages(b, config, part);
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

lora::WeightsBelow BuiltModel::below() const {
  const auto* reduced = dynamic_cast<const lora::ReducedBase*>(base.get());
  return {reduced ? reduced->whole() : *base, *base, four_bit ? &*four_bit : nullptr, fp8 ? &*fp8 : nullptr,
          dtype};
}

ReadParameter BuiltModel::whole_reader() const {
  return [this](const Parameter& p, Tensor y, std::int64_t first) {
    if (four_bit && four_bit->has(p))
      four_bit->read(*base, p, y, first);
    else if (fp8 && fp8->has(p))
      fp8->read(*base, p, y, first);
    else if (int8 && int8->has(p))
      int8->read(*base, p, y, first);
    else if (start && start->has(p))
      start->read(p, y, first);
    else if (p.name.starts_with(lora::kPeftPrefix))
      starts->read(below(), p, y, first);
    else if (is_score(p) && !base->has(p.name) && p.name.ends_with(".bias"))
      std::memset(y.data, 0, static_cast<std::size_t>(y.bytes()));
    else if (is_score(p) && !base->has(p.name))
      random_score(Random{seed}.with("init").with(p.name), made.info.initializer_range, y, first);
    else
      base->read(p.stored_name(), y, first);
  };
}

}  // namespace ft
