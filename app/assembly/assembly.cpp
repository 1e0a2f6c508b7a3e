#include "app/assembly/assembly.h"

#include "app/answers/answers.h"
#include "app/ranks/ranks.h"
#include "app/screen/format.h"
#include "engine/dist/local.h"
#include "engine/io/file.h"
#include "engine/io/json.h"
#include "engine/train/optimizer.h"
#include "engine/train/trainer.h"

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
                                      " are in 4 bits, which cannot be trained; set it to lora"));
  const auto wanted = lora::four_bit_plan(config.quantization);
  if (asked && (wanted.form != stored->form || wanted.skip != stored->skip))
    throw UserError(Exit::config, str("quantization: ", file,
                                      " says that its weights are in 4 bits already, in another way; leave "
                                      "quantization out to take them as they are"));
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

std::int64_t vocab_size_of(const RunConfig& config) {
  return JsonObject::read(join_path(config.model.model_name_or_path, "config.json")).positive("vocab_size");
}

BuiltData build_data(const RunConfig& config, std::int64_t vocab_size, LoadPart part,
                     const LoadProgress& progress, int ranks) {
  BuiltData d;
  const auto tokenizer = std::make_shared<std::shared_ptr<const Tokenizer>>();  // made when it is asked for
  const auto seed = static_cast<std::uint64_t>(config.training.seed);
  LoadContext context{.vocab_size = vocab_size,
                      .tokenizer = [tokenizer, from = config.model.tokenizer()]() -> const Tokenizer& {
                        if (!*tokenizer) *tokenizer = make_tokenizer(from);
                        return **tokenizer;
                      },
                      .progress = progress,
                      .tokenizer_path = config.model.tokenizer()};
  const auto decoder = read_decoder_tokens(join_path(config.model.model_name_or_path, "config.json"));
  if (decoder) context.seq2seq = {decoder->start, decoder->pad, decoder->end};
  d.loaded = load_data(config.data, seed, context, part);
  const TrainingConfig& t = config.training;
  const auto options = [&](std::int64_t size, bool shuffle) {
    BatcherOptions o = batcher_options(config.data, size, shuffle, seed);
    if (context.seq2seq) o.seq2seq = *context.seq2seq;
    return o;
  };
  const BatcherOptions train = options(t.per_device_train_batch_size, config.data.shuffle);
  if (part == LoadPart::train_and_eval && config.data.streaming) {
    if (t.max_steps <= 0)
      throw UserError(Exit::config, "data.streaming: a stream has no end; set training.max_steps");
    context.progress = {};
    d.stream = std::make_unique<Stream>(config.data, context, train,
                                        t.max_steps * t.gradient_accumulation_steps * ranks);
  } else if (part == LoadPart::train_and_eval) {
    d.train = std::make_unique<Batcher>(d.loaded.train, train);
  }
  if (d.loaded.eval.size() > 0)
    d.eval = std::make_unique<Batcher>(d.loaded.eval, options(t.per_device_eval_batch_size, false));
  d.tokenizer = *tokenizer;
  return d;
}

Device device_of(const RunConfig& config, int gpu) {
  const bool cudnn = config.model.attn_implementation == "cudnn";
  if (config.device == "cuda") return {Device::Kind::cuda, gpu, cudnn};
  if (cudnn)
    throw UserError(Exit::config,
                    "model.attn_implementation: cudnn is for GPUs; set device=cuda, or leave it out");
  if (config.training.gemm_tuning)
    throw UserError(Exit::config, "training.gemm_tuning is for GPUs; set device=cuda, or leave it out");
  return {};
}

std::unique_ptr<Ops> make_run_ops(const RunConfig& config, int gpu) {
  return make_ops(device_of(config, gpu), config.training.gemm_tuning.value_or(""));
}

PlanRequest plan_request(const RunConfig& config, const BuiltModel& b, const BuiltData& d,
                         std::int64_t workspace, int ranks) {
  PlanRequest r{.dtype = b.dtype,
                .ranks = ranks,
                .zero = zero_options(config.zero_optimization, ranks),
                .reduce_bucket = static_cast<std::int64_t>(config.zero_optimization.reduce_bucket_size),
                .states = Optimizer(config.training).states(),
                .recompute = config.training.gradient_checkpointing == false ? 0 : b.model().blocks(),
                .adapter = b.lora,
                .device = device_of(config),
                .workspace = workspace};
  if (d.train) r.train = largest_shapes(*d.train, length_of(config.training, *d.train, ranks).epochs);
  if (d.stream) r.train = {d.stream->largest()};
  if (d.eval) r.eval = largest_shapes(*d.eval, 1);
  if (d.eval && config.evaluation.predict_with_generate)
    r.generation = {
        AnswerTest(d.eval->data(), b.made.info, config.training.per_device_eval_batch_size, config.generation)
            .shape()};
  return r;
}

Engine::Engine(std::unique_ptr<Ops> device, std::unique_ptr<Communicator> others, const BuiltModel& b,
               const PlanRequest& request, const Plan& plan)
    : ops(std::move(device)),
      comm(others ? std::move(others) : std::make_unique<LocalCommunicator>(*ops)),
      store(*ops, *comm, request.zero),
      saved(ops->allocate(plan.saved), plan.saved),
      scratch(ops->allocate(plan.scratch), plan.scratch),
      context{*ops, saved, scratch, request.dtype} {
  b.model().add_units(store);
  b.model().set_recompute(request.recompute);
  store.reserve(request.states, plan.transient);
  if (b.base) store.load(b.reader());
}

MemoryReport Engine::memory(bool adapter) const {
  return memory_report(store.memory(), saved.peak(), scratch.peak() + ops->workspace(), adapter);
}

int sharing(const Ops& ops, int local_ranks) {
  return ops.device().kind == Device::Kind::cpu ? local_ranks : 1;
}

void require_memory(const MemoryReport& planned, const Ops& ops, const std::string& advice, int local_ranks) {
  const std::int64_t there = ops.free_memory();
  const int ranks = sharing(ops, local_ranks);
  if (there == 0 || planned.total * ranks <= there) return;
  const std::string each = ranks == 1 ? "this run" : str("each of the ", ranks, " ranks on this machine");
  throw UserError(
      Exit::memory,
      str(each, " needs ", show::memory(planned.total), " and ", show::memory(there), " are free (weights ",
          show::memory(planned.weights), ", optimizer ", show::memory(planned.optimizer + planned.gradients),
          ", activations ", show::memory(planned.activations + planned.scratch), ")\n  less: ", advice));
}

}  // namespace ft
