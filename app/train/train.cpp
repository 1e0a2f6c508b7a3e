#include "app/train/train.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <ctime>
#include <memory>
#include <optional>
#include <span>

#include "app/answers/predictions.h"
#include "app/assembly/built_data.h"
#include "app/assembly/engine.h"
#include "app/deepspeed/report.h"
#include "app/files/model_files.h"
#include "app/plan/planned.h"
#include "app/plan/request.h"
#include "app/plan/ways_out.h"
#include "app/process/signals.h"
#include "app/profile/profiled_step.h"
#include "app/ranks/offload.h"
#include "app/ranks/ranks.h"
#include "app/rollouts/online.h"
#include "app/screen/format.h"
#include "app/screen/run_text.h"
#include "app/train/best_checkpoint.h"
#include "app/train/communication_log.h"
#include "app/train/eva.h"
#include "app/train/memory_breakdown.h"
#include "app/train/next_commands.h"
#include "app/train/reference.h"
#include "app/train/reports.h"
#include "app/train/room.h"
#include "app/train/run_folder.h"
#include "app/train/teach.h"
#include "app/train/traced_steps.h"
#include "app/version/version.h"
#include "engine/cpu/cores.h"
#include "engine/cuda/cuda_ops.h"
#include "engine/files/checkpoint_folder.h"
#include "engine/ops/ops.h"
#include "engine/ranks/together.h"
#include "engine/train/stage_schedule.h"
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
                  .linears = std::ssize(b.attached.linears) + std::ssize(b.attached.experts) +
                             (b.attached.embedding ? 1 : 0)};
  const auto add = [&](const std::string& name) {
    const std::string last = name.substr(name.rfind('.') + 1);
    if (std::find(h.targets.begin(), h.targets.end(), last) == h.targets.end()) h.targets.push_back(last);
  };
  for (const std::string& name : b.attached.linears) add(name);
  if (b.attached.embedding) add(b.attached.embedding_module);
  for (const lora::ExpertPart& part : b.attached.experts) add(part.weight.substr(0, part.weight.rfind('.')));
  return h;
}

// What the rate's default depends on.
std::string kind_of_run(const RunConfig& config) {
  if (config.objective.compares()) return name_of(config.objective.type);
  return config.finetuning_type == FinetuningType::lora ? "adapters" : "full fine-tuning";
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
  h.settings = effective_config(config);
  h.model = b.name;
  h.architecture = b.made.info.architecture;
  h.dtype = type_in_header(b.dtype);
  if (!t.training.bf16 && !t.training.fp16)
    h.dtype += config.on_gpu() ? " (auto on a GPU)" : " (auto on a CPU)";
  if (b.four_bit) h.dtype += str(", weights ", name_of(b.four_bit->form().book));
  h.trained_parameters = plan.trained;
  h.parameters = plan.parameters;
  if (b.lora) {
    h.adapter = adapter_header(b);
    for (lora::LoraAdapter* a : b.attached.adapters)
      for (const Parameter* p : a->trained()) h.parameters -= p->whole_shape().numel();
    for (const lora::ExpertsLora* a : lora::adapters_of(b.attached.experts))
      h.parameters -= a->a.shape.numel() + a->b.shape.numel();
    if (const lora::EmbeddingLora* a = b.attached.embedding)
      h.parameters -= a->a.shape.numel() + a->b.shape.numel();
  }
  h.data = data_header(config, d);
  h.memory = plan.memory;
  if (!t.training.gradient_checkpointing) {
    h.blocks = plan.blocks;
    h.recomputed = plan.recomputed;
    h.segment = plan.segment;
  }
  h.whole = plan.whole;
  h.learning_rate = t.training.learning_rate;
  h.schedule = name_of(t.training.lr_scheduler_type);
  if (config.usual_rate) h.usual_rate = kind_of_run(config);
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

std::string local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M", &parts);
  return text.data();
}

// What the machine and the other ranks add to it.
void add_machine(RunHeader& head, const RunConfig& config, Ops& ops, DType dtype, const Communicator& comm) {
  head.memory_there = ops.free_memory() + ops.driver_memory();
  head.peak_flops = ops.peak_flops(dtype) * comm.size();
  head.processor = str(config.on_gpu() ? "NVIDIA GPU beside " : "", cpu::processor_name(), ", ",
                       show::plural(cpu::usable_cores(), "core"));
  head.started = local_time();
  if (attention_of(config) == AttentionKernels::vendor) head.cudnn = cudnn_version().value_or("");
  if (comm.size() > 1) head.ranks = str(comm.size(), ", over ", comm.via());
}

// Why a run ended before the last step.
std::string why(Ending ending, const std::string& signal) {
  if (ending == Ending::finished) return "";
  if (ending == Ending::early) return "the held-out loss stopped falling";
  return signal.empty() ? "a signal to another rank" : signal;
}

// How a signal is answered at once: by a line of rank 0, over the live line where there is one.
Acknowledge acknowledgement(const RunConfig& config, const Ranks& ranks, const Screen& screen) {
  const LoggingConfig& log = config.logging;
  if (!ranks.root() || log.progress == ProgressStyle::none || log.log_level >= LogLevel::warning)
    return Acknowledge::no;
  return screen.live() ? Acknowledge::over_live_line : Acknowledge::by_line;
}

std::unique_ptr<TracedSteps> make_traced(const TrainArgs& args, const RunConfig& config, const Ranks& ranks,
                                         Ops& ops, CommunicationNotes& notes, Screen& screen) {
  if (args.trace.empty()) return nullptr;
  return std::make_unique<TracedSteps>(
      ops, notes, ranks.file(args.trace), screen,
      bubble({ranks.grid.pipeline, ranks.grid.chunks, config.training.gradient_accumulation_steps}));
}

Summary summary(const TrainState& state, const Trainer& trainer, std::int64_t first_tokens, Ending ending) {
  Summary s;
  s.finished = ending == Ending::finished;
  s.step = state.step;
  s.epoch = static_cast<double>(state.step) / static_cast<double>(trainer.length().steps_per_epoch);
  s.train_loss =
      state.run_loss_targets ? state.run_loss_sum / static_cast<double>(state.run_loss_targets) : NAN;
  s.train_runtime = trainer.train_seconds();
  s.train_tokens_per_second =
      static_cast<double>(state.tokens_seen - first_tokens) / std::max(trainer.train_seconds(), 1e-9);
  s.num_input_tokens_seen = state.tokens_seen;
  s.total_flops = state.flops;
  const Traffic traffic = trainer.traffic_per_step();
  s.sent_per_step = traffic.sent;
  s.moved_per_step = traffic.moved;
  s.files_by = trainer.files_by();
  return s;
}

TrainState start_of(const RunConfig& config, const BuiltData& data, int ranks) {
  TrainState s;
  s.batches_per_epoch = data.stream ? 1 : data.train->batches_per_epoch();  // to resume with more steps
  s.accumulation = config.training.gradient_accumulation_steps * ranks;
  return s;
}

// DeepSpeed's file may say how many steps there are.
void settle_steps(const RunConfig& config, const BuiltData& data, int ranks) {
  const std::int64_t steps = length_of(config.training, data.batches(), ranks).total_steps;
  deepspeed::settle_steps(*config.report, steps, config.training.warmup(steps));
}

// Whoever trains a chat model on plain pairs may have meant conversations.
std::string on_plain_rows(const RunConfig& config, const BuiltModel& built, const BuiltData& data) {
  const bool plain = data.written == Written::plain || data.written == Written::alpaca;
  if (!plain || built.made.info.decoder || !holds_chat_template(config.model.tokenizer())) return "";
  return str(
      "the rows are plain ", data.written == Written::plain ? "prompts and answers" : "instructions",
      ", trained without the model's chat template, and ft chat, serve and generate will ask in the same "
      "way; to train with the template, write the prompts as messages: "
      "[{\"role\": \"user\", \"content\": ...}] (docs/data.md)");
}

// Evaluations and checkpoints that a short run would wait for in vain.
void note_what_never_comes(const RunHeader& head, Report& report) {
  const auto beyond = [&](std::int64_t every) { return every > head.steps; };
  if (beyond(head.eval_steps))
    report.note(str("evaluation.eval_steps is ", head.eval_steps, " and the run has ", head.steps,
                    " steps: nothing is evaluated; lower it, or set evaluation.eval_strategy=epoch"));
  if (beyond(head.save_steps))
    report.note(str("checkpointing.save_steps is ", head.save_steps, " and the run has ", head.steps,
                    " steps: there is no checkpoint before its end"));
}

void begin(const RunConfig& config, Report& report, const RunHeader& head, const Resumed& resumed,
           const BuiltModel& built, const BuiltData& data) {
  report.begin(head);
  if (const std::string& why = built.made.info.fp16_warning; built.dtype == DType::f16 && !why.empty())
    report.warning("training.fp16 with " + why + "; training.bf16=true or training.fp16=false is safe");
  for (const std::string& text : built.warnings) report.warning(text);
  for (const std::string& text : resumed.skipped) report.warning(text);
  if (!resumed.skipped.empty() && !resumed.from.empty()) report.warning("resuming from " + resumed.from);
  for (const std::string& text : resumed.changes.warnings) report.warning(text);
  for (const std::string& text : resumed.changes.notes) report.note(text);
  for (const std::string& text : data.loaded.notes) report.note(text);
  if (const std::string text = on_plain_rows(config, built, data); !text.empty()) report.note(text);
  note_what_never_comes(head, report);
  if (config.training.gradient_checkpointing == Checkpointing::offload && !config.on_gpu())
    report.note("training.gradient_checkpointing=offload is true on a CPU, whose memory is the host's");
  if (const std::string text = idle_homes(config); !text.empty()) report.note(text);
  if (const std::int64_t from = make_optimizer(config.training)->own_from();
      from > head.steps && from < kNever)
    report.note(str("training.optim_args: freeze_step ", from, " lies beyond the run's ", head.steps,
                    " steps: nothing is sent as signs"));
  if (const lora::LoraConfig& c = built.lora_config; built.lora && !built.start && c.r > 32 && !c.use_rslora)
    report.note(
        "lora.r above 32: lora.use_rslora=true keeps the scale from shrinking with the rank (GSM8K, measured "
        "elsewhere: 51 % instead of 47 %)");
  if (!config.report) return;
  const std::vector<std::string> lines = as_lines(*config.report, false);
  report.note(str(printable(config.report->file), ": ", config.report->rows.size(),
                  " keys; ft validate shows what becomes of each",
                  lines.empty() ? "" : "; keys that may surprise you:"));
  for (const std::string& line : lines) report.note("  " + line);
}

void answer_before(Predictions* predictions, Engine& engine, const RunHeader& head, const Ranks& ranks) {
  if (predictions)
    predictions->answer_before(engine.context, engine.store, head.resumed_step > 0, ranks.root());
}

std::function<Measures()> measuring(Predictions* predictions, Engine& engine, Report& report) {
  if (!predictions) return {};
  return [&, predictions] {
    return predictions->run(engine.context, engine.store,
                            [&](std::int64_t done, std::int64_t of) { report.evaluating(done, of); });
  };
}

// What rows have besides: of the data's schedules, of the memory and of answers' times, where there are such.
std::function<Measures(std::int64_t)> columns_of(const BuiltData& data, MemoryBreakdown* memory,
                                                 Online* online) {
  return [&data, memory, online](std::int64_t step) {
    Measures columns;
    if (data.efficient) columns = data.efficient->schedules(step);
    if (online) columns = online->shares();
    if (memory)
      for (auto& column : memory->row()) columns.push_back(std::move(column));
    return columns;
  };
}

// What the finished model answers to the held-out prompts.
void predict(Predictions& predictions, Engine& engine, Model& model, Objective& objective,
             const BatchSource& data, Report& report) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const auto progress = [&](std::int64_t done, std::int64_t of) { report.evaluating(done, of); };
  const Evaluated e = evaluate(engine.pass(model), objective, data, progress);
  const Measures measures = predictions.run(engine.context, engine.store, progress);
  const std::chrono::duration<double> seconds = Clock::now() - start;
  if (engine.comm->rank() != 0) return;
  predictions.write(e.loss, seconds.count(), data.batches_per_epoch());
  report.note("predictions" + measures_text(measures));
  for (const std::string& line : predictions.before_and_after()) report.note(line);
}

// On rank 0, where logging.flops_profiler asks for it.
std::unique_ptr<ProfiledStep> make_profiled(const TrainArgs& args, const RunConfig& config,
                                            const Ranks& ranks, Ops& ops, Model& model,
                                            CommunicationNotes& notes, Screen& screen) {
  if (!args.trace.empty() && config.logging.flops_profiler.enabled)
    throw UserError(
        Exit::config,
        "--trace and logging.flops_profiler.enabled both trace a run's operations; leave one out");
  if (!config.logging.flops_profiler.enabled || !ranks.root()) return nullptr;
  return std::make_unique<ProfiledStep>(
      ops, model, notes, config.logging.flops_profiler,
      ProfiledStep::To{.folder = config.training.output_dir,
                       .tell = [&](const std::string& text) { screen.line(text, Screen::kWhole); },
                       .ranks = ranks.size});
}

// On rank 0, where logging.memory_breakdown asks for it.
MemoryBreakdown* watch_memory(const RunConfig& config, const Ranks& ranks, Engine& engine, Reports& reports,
                              Screen& screen) {
  if (!config.logging.memory_breakdown || !ranks.root()) return nullptr;
  auto own = std::make_unique<MemoryBreakdown>(screen);
  own->watch(engine.context.ops.phases(), engine.saved, engine.scratch);
  MemoryBreakdown* const breakdown = own.get();
  reports.add(std::move(own));
  return breakdown;
}

// From the file of a run before, or computed and kept there.
void know_reference(const RunConfig& config, Engine& engine, const BuiltModel& built,
                    const BuiltObjective& objective, BuiltData& data, Screen& screen) {
  std::optional<ReferenceFile> kept;
  if (engine.comm->rank() == 0) kept.emplace(config, built, objective, data);
  precompute_reference(engine, built, objective, data, screen, kept ? &*kept : nullptr);
}

// Rank 0's.
std::unique_ptr<Reports> reports_of(const RunConfig& config, const Ranks& ranks, const DiskNeeds& needs,
                                    Screen& screen) {
  if (!ranks.root()) return std::make_unique<Reports>();
  auto all = make_reports(screen, config.logging, config.training.output_dir);
  all->add(std::make_unique<RoomWatch>(*all, config.training.output_dir, needs));
  return all;
}

// The best checkpoint, where it is asked for. If it has been damaged since, the result is the last step's.
void load_best(const RunConfig& config, const TrainState& state, Checkpoints& checkpoints, Communicator& comm,
               Report& report) {
  if (!config.evaluation.load_best_model_at_end || !state.best) return;
  const std::string folder = checkpoint_path(config.training.output_dir, state.best_step);
  const std::string fault = shared(comm, comm.rank() == 0 ? fault_of(folder) : "");
  if (fault.empty()) return checkpoints.load_weights(folder);
  report.warning(fault + "; it was the best: the result is the last step's");
}

// Writes the result, and a critic's beside it.
void finish(RunFolder& folder, ModelFiles& files, Engine& engine, const BuiltObjective& objective,
            bool held_out, Summary& end) {
  if (objective.critic)
    folder.write_critic(*make_model_files(*objective.critic), *engine.others.critic.store, *engine.comm);
  folder.finish(files, engine.store, *engine.comm, held_out, end);
}

// Where an objective gives its answers itself, rank 0 writes them, and tells how many are begun.
void write_rollouts(Online* online, const RunConfig& config, const Ranks& ranks, const TrainState& state,
                    Report& report) {
  if (!online || !ranks.root()) return;
  online->write_to(config.training.output_dir, state.step);
  online->tell([&report](std::int64_t begun, std::int64_t of) { report.answering(begun, of); });
}

// The same for all ranks, and what a teacher's file is of.
void require_data(Communicator& comm, const BuiltObjective& objective, const BuiltData& data) {
  if (objective.taught) require_taught(*objective.taught, data);
  if (data.stream)
    require_same(comm, data.stream->bytes(), "the size of the data");
  else
    require_same(comm, data.train->data().tokens(), "the number of tokens in the data");
}

}  // namespace

Exit train(const TrainArgs& args) {
  const RunConfig config = load_config(args.config, args.settings(), {.ranks = ranks_here(), .trains = true});
  const Ranks ranks = find_ranks(config);
  RunFolder folder(config, args.overwrite, ranks.root());  // refuses what it must, before it takes time
  Screen screen(Screen::standard_error(ranks.root() ? config.logging.progress : ProgressStyle::none));
  BuiltModel built = build_model(config, Weights::check, ranks.part());
  BuiltObjective objective = build_objective(config, built, Weights::check);
  BuiltData data = read_data(config, built, ranks.grid.data, screen);
  Online* const online = go_online(objective, config, built, data);
  if (config.report) settle_steps(config, data, ranks.grid.data);
  const auto predictions = make_predictions(config, built, data);
  auto ops = make_run_ops(config, ranks.gpu);
  CommunicationNotes notes;
  auto traced = make_traced(args, config, ranks, *ops, notes, screen);
  auto profiled = make_profiled(args, config, ranks, *ops, built.model(), notes, screen);
  CommunicationSums talk(config.logging.comms_logger);
  CommunicationSums* const told = config.logging.comms_logger.enabled && ranks.root() ? &talk : nullptr;
  auto comm = make_communicator(ranks, *ops, config, traced || profiled ? &notes : nullptr, told);
  begin_from_data(config, built, objective, data, ranks, folder, ops, comm, screen);
  PlanRequest request = plan_request(config, built, objective, data, ops->workspace(), ranks.grid);
  request.driver = driver_memory(*ops);
  request.recompute = choose_recomputed(config, built.model(), request, *ops, ranks, *comm);
  const Plan plan = plan_run(built.model(), request);
  require_memory(plan.memory, *ops, advice_on_memory(config, true), ranks.local_size);
  require_data(*comm, objective, data);
  RunHeader head = header(config, built, data, plan, ranks.grid.data);
  add_machine(head, config, *ops, built.dtype, *comm);
  Ops* const observer = traced ? &traced->ops() : profiled ? &profiled->ops() : nullptr;
  Engine engine(std::move(ops), std::move(comm), built, request, plan, observer, &objective);
  if (profiled) profiled->watch(engine.saved);
  if (objective.precomputes) know_reference(config, engine, built, objective, data, screen);
  const auto files = make_model_files(built);
  Checkpoints checkpoints(built.model(), engine.store, *engine.comm, *files, config.training.output_dir,
                          kMaxShardBytes, engine.others.critic);
  TrainState state = start_of(config, data, ranks.grid.data);
  const Resumed resumed = folder.resume(checkpoints, state, head);
  require_same(*engine.comm, state.step, "the step to resume from");
  const DiskNeeds needs = disk_needs_of(config, head, checkpoints, *files);
  folder.create(needs, data.written);
  require_one_folder(*engine.comm, config.training.output_dir);
  const auto reports = reports_of(config, ranks, needs, screen);
  write_rollouts(online, config, ranks, state, *reports);
  if (traced) reports->add(std::move(traced));
  if (profiled) reports->add(std::move(profiled));
  if (told) reports->add(std::make_unique<CommunicationLog>(screen, talk, config.training.output_dir));
  MemoryBreakdown* const breakdown = watch_memory(config, ranks, engine, *reports, screen);
  begin(config, *reports, head, resumed, built, data);
  answer_before(predictions.get(), engine, head, ranks);
  StopSignals signals(config.checkpointing.save_on_signal, acknowledgement(config, ranks, screen));
  Trainer trainer({.context = engine.context,
                   .model = built.model(),
                   .store = engine.store,
                   .comm = engine.grid.zero(),
                   .data = data.batches(),
                   .eval = data.held_out(),
                   .checkpoints = checkpoints,
                   .report = *reports,
                   .stop_asked = [&] { return signals.asked(); },
                   .add_to_checkpoint = [&](const std::string& to) { folder.add_to_checkpoint(to); },
                   .flops_per_token = plan.flops_per_token,
                   .measure = measuring(predictions.get(), engine, *reports),
                   .columns = columns_of(data, breakdown, online),
                   .objective = objective.objective.get(),
                   .others = engine.others},
                  config.train());
  const std::int64_t first_tokens = state.tokens_seen;
  const Ending ending = trainer.run(state);

  Summary end = summary(state, trainer, first_tokens, ending);
  end.memory = engine.memory(built.lora);
  end.why = why(ending, signals.name());
  if (ending == Ending::preempted) end.resume = resume_command({config, engine.comm->size()});
  if (ending != Ending::preempted) {
    load_best(config, state, checkpoints, *engine.comm, *reports);
    finish(folder, *files, engine, objective, data.eval != nullptr, end);
    if (predictions) predict(*predictions, engine, built.model(), *objective.objective, *data.eval, *reports);
  }
  reports->end(end);
  return ending == Ending::preempted ? Exit::preempted : Exit::done;
}

}  // namespace ft
