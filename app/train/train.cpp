#include "app/train/train.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>

#include "app/answers/predictions.h"
#include "app/assembly/built_data.h"
#include "app/assembly/engine.h"
#include "app/files/model_files.h"
#include "app/plan/planned.h"
#include "app/plan/request.h"
#include "app/plan/ways_out.h"
#include "app/process/signals.h"
#include "app/ranks/ranks.h"
#include "app/screen/run_text.h"
#include "app/train/reports.h"
#include "app/train/run_folder.h"
#include "app/train/traced_steps.h"
#include "app/version/version.h"
#include "engine/cuda/cuda_ops.h"
#include "engine/io/checkpoint_folder.h"
#include "engine/train/trainer.h"

namespace ft {
namespace {

DataHeader data_header(const RunConfig& config, const BuiltData& d) {
  if (d.stream)
    return {.held_out = d.loaded.eval.size(),
            .streamed_bytes = d.stream->bytes(),
            .shuffled_at_once = config.data.shuffle ? config.data.shuffle_buffer_size : 0};
  const Dataset& data = d.train->data();
  return {.samples = data.size(),
          .tokens = data.tokens(),
          .target_tokens = data.targets(),
          .held_out = d.loaded.eval.size(),
          .sequences = d.train->rows(),
          .length = config.data.packing ? config.data.max_seq_length : data.longest(),
          .packed = config.data.packing};
}

AdapterHeader adapter_header(const BuiltModel& b) {
  AdapterHeader h{.rank = b.lora_config.r,
                  .alpha = b.lora_config.lora_alpha,
                  .linears = static_cast<std::int64_t>(b.attached.linears.size())};
  for (const std::string& name : b.attached.linears) {
    const std::string last = name.substr(name.rfind('.') + 1);
    if (std::find(h.targets.begin(), h.targets.end(), last) == h.targets.end()) h.targets.push_back(last);
  }
  return h;
}

const char* type_in_header(DType t) { return t == DType::bf16 ? "bf16" : t == DType::f16 ? "f16" : "f32"; }

RunHeader header(const RunConfig& config, const BuiltModel& b, const BuiltData& d, const Plan& plan,
                 int ranks) {
  const Length length = length_of(config.training, d.batches(), ranks);
  const TrainConfig t = config.train();
  RunHeader h;
  h.version = kVersion;
  h.run_name = t.logging.run_name.value_or("");
  h.metric = t.evaluation.metric_for_best_model;
  h.greater_is_better = t.evaluation.greater();
  h.config = config.file.string();
  h.output = t.training.output_dir;
  h.model = b.folder;
  h.architecture = b.made.info.architecture;
  h.dtype = type_in_header(b.dtype);
  if (!t.training.bf16 && !t.training.fp16)
    h.dtype += config.on_gpu() ? " (auto on a GPU)" : " (auto on a CPU)";
  if (b.four_bit) h.dtype += str(", weights ", name_of(b.four_bit->form().book));
  h.trained_parameters = plan.trained;
  h.parameters = plan.parameters;
  if (b.lora) {
    h.adapter = adapter_header(b);
    for (const lora::LoraAdapter* a : b.attached.adapters)
      h.parameters -= a->a.shape.numel() + a->b.shape.numel();
  }
  h.data = data_header(config, d);
  h.memory = plan.memory;
  if (!t.training.gradient_checkpointing) {
    h.blocks = plan.blocks;
    h.recomputed = plan.recomputed;
    h.segment = plan.segment;
  }
  h.steps = length.total_steps;
  h.steps_per_epoch = length.steps_per_epoch;
  h.epochs = static_cast<double>(length.total_steps) / static_cast<double>(length.steps_per_epoch);
  h.micro_batch = t.training.per_device_train_batch_size;
  h.sequences_per_step = h.micro_batch * t.training.gradient_accumulation_steps * ranks;
  auto every = [&](bool on, double setting) { return on ? steps_of(setting, length.total_steps) : 0; };
  h.logging_steps = every(true, t.logging.logging_steps);
  h.eval_steps = every(t.evaluation.eval_strategy == EvalStrategy::steps, t.evaluation.eval_steps);
  h.save_steps = every(t.checkpointing.save_strategy == SaveStrategy::steps, t.checkpointing.save_steps);
  return h;
}

Summary summary(const TrainState& state, const Trainer& trainer, const Length& length,
                std::int64_t first_tokens) {
  Summary s;
  s.step = state.step;
  s.epoch = static_cast<double>(state.step) / static_cast<double>(length.steps_per_epoch);
  s.train_loss =
      state.run_loss_targets ? state.run_loss_sum / static_cast<double>(state.run_loss_targets) : 0;
  s.train_runtime = trainer.train_seconds();
  s.train_tokens_per_second =
      static_cast<double>(state.tokens_seen - first_tokens) / std::max(trainer.train_seconds(), 1e-9);
  s.num_input_tokens_seen = state.tokens_seen;
  s.total_flops = state.flops;
  s.sent_per_step = trainer.sent_per_step();
  return s;
}

TrainState start_of(const RunConfig& config, const BuiltData& data, int ranks) {
  TrainState s;
  s.batches_per_epoch = data.stream ? 1 : data.train->batches_per_epoch();  // to resume with more steps
  s.accumulation = config.training.gradient_accumulation_steps * ranks;
  return s;
}

BuiltData read_data(const RunConfig& config, const BuiltModel& built, int ranks, Screen& screen) {
  Working working(screen, "reading data");
  return build_data(
      config, built.made.info.vocab_size, LoadPart::train_and_eval,
      [&](std::int64_t done, std::int64_t of) { working(done, of); }, ranks);
}

void tell_beginning(Report& report, const Resumed& resumed, const BuiltModel& built, const BuiltData& data) {
  if (const std::string& why = built.made.info.fp16_warning; built.dtype == DType::f16 && !why.empty())
    report.warning("training.fp16 with " + why + "; training.bf16=true or training.fp16=false is safe");
  for (const std::string& text : resumed.skipped) report.warning(text);
  if (!resumed.skipped.empty() && !resumed.from.empty()) report.warning("resuming from " + resumed.from);
  for (const std::string& text : data.loaded.notes) report.note(text);
}

std::function<Measures()> measuring(Predictions* predictions, Engine& engine, Report& report) {
  if (!predictions) return {};
  return [&, predictions] {
    return predictions->run(engine.context, engine.store,
                            [&](std::int64_t done, std::int64_t of) { report.evaluating(done, of); });
  };
}

// As rank 0 sees it, so that memory and messages are the same on all ranks.
std::int64_t choose_recomputed(Model& model, const PlanRequest& request, const Ops& ops, const Ranks& ranks,
                               Communicator& comm) {
  std::int64_t fewest = fewest_recomputed(model, request, ops.free_memory() / sharing(ops, ranks.local_size));
  comm.broadcast(std::as_writable_bytes(std::span(&fewest, 1)), 0);
  return fewest;
}

// What the finished model answers to the held-out prompts.
void predict(Predictions& predictions, Engine& engine, Model& model, const BatchSource& data,
             Report& report) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const auto progress = [&](std::int64_t done, std::int64_t of) { report.evaluating(done, of); };
  const Evaluated e = evaluate(engine.context, model, engine.store, *engine.comm, data, progress);
  const Measures measures = predictions.run(engine.context, engine.store, progress);
  const std::chrono::duration<double> seconds = Clock::now() - start;
  if (engine.comm->rank() != 0) return;
  predictions.write(e.loss, seconds.count(), data.batches_per_epoch());
  report.note("predictions" + measures_text(measures));
}

}  // namespace

Exit train(const TrainArgs& args) {
  const RunConfig config = load_config(args.config, args.overrides);
  const Ranks ranks = find_ranks(config);
  RunFolder folder(config, args.overwrite, ranks.root());  // refuses what it must, before it takes time
  Screen screen(Screen::standard_error(ranks.root() ? config.logging.progress : ProgressStyle::none));
  BuiltModel built = build_model(config, Weights::check);
  BuiltData data = read_data(config, built, ranks.size, screen);
  const auto predictions = make_predictions(config, built, data);
  auto ops = make_run_ops(config, ranks.gpu);
  CommunicationNotes notes;
  std::unique_ptr<TracedSteps> traced;
  if (!args.trace.empty())
    traced = std::make_unique<TracedSteps>(*ops, notes, ranks.file(args.trace), screen);
  auto comm = make_communicator(ranks, *ops, config, traced ? &notes : nullptr);
  PlanRequest request = plan_request(config, built, data, ops->workspace(), ranks.size);
  if (!config.training.gradient_checkpointing)
    request.recompute = choose_recomputed(built.model(), request, *ops, ranks, *comm);
  const Plan plan = plan_run(built.model(), request);
  require_memory(plan.memory, *ops, advice_on_memory(config, true), ranks.local_size);
  if (data.stream)
    require_same(*comm, data.stream->bytes(), "the size of the data");
  else
    require_same(*comm, data.train->data().tokens(), "the number of tokens in the data");

  RunHeader head = header(config, built, data, plan, ranks.size);
  head.memory_there = ops->free_memory();
  head.peak_flops = ops->peak_flops(built.dtype) * ranks.size;
  if (attention_of(config) == AttentionKernels::vendor) head.cudnn = cudnn_version().value_or("");
  if (ranks.size > 1) head.ranks = str(ranks.size, ", over ", comm->via());
  Engine engine(std::move(ops), std::move(comm), built, request, plan, traced ? &traced->ops() : nullptr);
  const auto files = make_model_files(built);
  Checkpoints checkpoints(built.model(), engine.store, *engine.comm, *files, config.training.output_dir);
  TrainState state = start_of(config, data, ranks.size);
  const Resumed resumed = folder.resume(checkpoints, state, head);
  require_same(*engine.comm, state.step, "the step to resume from");
  folder.create();
  require_one_folder(*engine.comm, config.training.output_dir);
  const auto reports = ranks.root() ? make_reports(screen, config.logging, config.training.output_dir)
                                    : std::make_unique<Reports>();
  if (traced) reports->add(std::move(traced));
  reports->begin(head);
  tell_beginning(*reports, resumed, built, data);

  StopSignals signals(config.checkpointing.save_on_signal);
  Trainer trainer({.context = engine.context,
                   .model = built.model(),
                   .store = engine.store,
                   .comm = *engine.comm,
                   .data = data.batches(),
                   .eval = data.eval.get(),
                   .checkpoints = checkpoints,
                   .report = *reports,
                   .stop_asked = [&] { return signals.asked(); },
                   .add_to_checkpoint = [&](const std::string& to) { folder.add_to_checkpoint(to); },
                   .flops_per_token = plan.flops_per_token,
                   .measure = measuring(predictions.get(), engine, *reports)},
                  config.train());
  const std::int64_t first_tokens = state.tokens_seen;
  const Ending ending = trainer.run(state);

  Summary end = summary(state, trainer, length_of(config.training, data.batches(), ranks.size), first_tokens);
  end.memory = engine.memory(built.lora);
  end.finished = ending == Ending::finished;
  if (ending == Ending::early) end.why = "the held-out loss stopped falling";
  if (ending == Ending::preempted) {
    end.why = signals.name().empty() ? "a signal to another rank" : signals.name();
  } else {
    if (config.evaluation.load_best_model_at_end && state.best)
      checkpoints.load_weights(checkpoint_path(config.training.output_dir, state.best_step));
    folder.finish(*files, engine.store, *engine.comm, end);
    if (predictions) predict(*predictions, engine, built.model(), *data.eval, *reports);
  }
  reports->end(end);
  return ending == Ending::preempted ? Exit::preempted : Exit::done;
}

}  // namespace ft
