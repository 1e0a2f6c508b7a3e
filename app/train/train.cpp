#include "app/train/train.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>

#include "app/answers/predictions.h"
#include "app/deepspeed/report.h"
#include "app/files/model_files.h"
#include "app/process/signals.h"
#include "app/ranks/offload.h"
#include "app/rollouts/online.h"
#include "app/run/run.h"
#include "app/screen/format.h"
#include "app/screen/run_text.h"
#include "app/train/checkpoints/best_checkpoint.h"
#include "app/train/eva.h"
#include "app/train/next_commands.h"
#include "app/train/nonfinite_rows.h"
#include "app/train/observers.h"
#include "app/train/reference.h"
#include "app/train/replaced_run.h"
#include "app/train/reports.h"
#include "app/train/room.h"
#include "app/train/run_folder.h"
#include "app/train/run_header.h"
#include "app/train/trainer_parts.h"
#include "engine/files/checkpoint_folder.h"
#include "engine/files/file.h"
#include "engine/model/invocation.h"
#include "engine/ranks/together.h"
#include "engine/train/reports/spikes.h"

namespace ft {
namespace {

// Returns the reason why a run ended before its last step; empty: it did not.
std::string why(Ending ending, const std::string& signal) {
  if (ending == Ending::finished) return "";
  if (ending == Ending::early) return "the held-out loss stopped falling";
  return signal.empty() ? "a signal to another rank" : signal;
}

// True if the screen shows lines of progress.
bool shows_lines(const LoggingConfig& log) {
  return log.progress != ProgressStyle::none && log.log_level < LogLevel::warning;
}

// Returns how to acknowledge a signal at once: on rank 0 with a line, which replaces the live line if there
// is one.
Acknowledge acknowledgement(const Run& run, const Screen& screen) {
  if (!run.ranks.root() || !shows_lines(run.config.logging)) return Acknowledge::no;
  return screen.live() ? Acknowledge::over_live_line : Acknowledge::by_line;
}

// Summarizes the run at its end, from this process's counters.
Summary summary(Run& run, const TrainState& state, const Trainer& trainer, std::int64_t first_tokens,
                Ending ending, const std::string& signal) {
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
  s.memory = run.engine().memory(run.built.lora);
  s.why = why(ending, signal);
  if (ending == Ending::preempted) s.resume = resume_command({run.config, run.comm().size()});
  return s;
}

TrainState start_of(const Run& run) {
  TrainState s;
  s.batches_per_epoch =
      run.data.stream ? 1 : run.data.train->batches_per_epoch();  // to resume with more steps
  s.accumulation = run.config.training.gradient_accumulation_steps * run.ranks.grid.data;
  return s;
}

// Fills in the number of steps in the report on DeepSpeed's file, which may have another one.
void settle_steps(const ReportedConfig& given, const Run& run) {
  if (!given.deepspeed) return;
  const TrainingConfig& t = run.config.training;
  const std::int64_t steps = length_of(t, run.data.batches(), run.ranks.grid.data).total_steps;
  deepspeed::settle_steps(*given.deepspeed, steps, t.warmup(steps));
}

// Returns a note if a chat model is trained on plain rows, where conversations may have been meant; empty:
// none.
std::string on_plain_rows(const RunConfig& config, const BuiltModel& built, const BuiltData& data) {
  const bool plain = data.written == Written::plain || data.written == Written::alpaca;
  if (!plain || built.made.info.decoder || !holds_chat_template(config.model.tokenizer())) return "";
  return str(
      "the rows are plain ", data.written == Written::plain ? "prompts and answers" : "instructions",
      ", trained without the model's chat template, and ft chat, serve and generate will ask in the same "
      "way; to train with the template, write the prompts as messages: "
      "[{\"role\": \"user\", \"content\": ...}] (docs/data.md)");
}

// Returns a warning about samples on which an adapter that waits for its invocation does not act; "": there
// are none.
std::string about_missing_invocations(const BuiltModel& built, const BuiltData& data) {
  const std::span<const std::int32_t> tokens = built.model().invocation();
  if (tokens.empty() || !data.train) return "";
  const Dataset& all = data.train->data();
  std::int64_t without = 0;
  for (std::int64_t i = 0; i < all.size(); ++i) {
    const std::span<const std::int32_t> ids = all[i].input_ids;
    if (last_place(ids, tokens) == std::ssize(ids)) ++without;
  }
  if (without == 0) return "";
  return str("lora.alora_invocation_tokens: ", without, " of ", all.size(),
             " samples do not have these tokens, and the adapter does not act on them");
}

// Notes that training waits for checkpoints because there is no memory for snapshots.
void note_waiting(Run& run, Report& report) {
  const CheckpointingConfig& c = run.config.checkpointing;
  if (c.async_save || c.save_strategy == SaveStrategy::no || run.engine().snapshot) return;
  report.note(str("training waits while checkpoints are written: there is no room for a snapshot of ",
                  show::memory(run.count().snapshot), " to write them beside it (checkpointing.async_save)"));
}

// Notes that a short run ends before its first evaluation or its first checkpoint.
void note_what_never_comes(const RunHeader& head, Report& report) {
  const auto beyond = [&](std::int64_t every) { return every > head.steps; };
  if (beyond(head.eval_steps))
    report.note(str("evaluation.eval_steps is ", head.eval_steps, " and the run has ", head.steps,
                    " steps: nothing is evaluated; lower it, or set evaluation.eval_strategy=epoch"));
  if (beyond(head.save_steps))
    report.note(str("checkpointing.save_steps is ", head.save_steps, " and the run has ", head.steps,
                    " steps: there is no checkpoint before its end"));
}

void begin(const ReportedConfig& given, Report& report, const RunHeader& head, const Resumed& resumed,
           const Run& run) {
  const RunConfig& config = run.config;
  const BuiltModel& built = run.built;
  report.begin(head);
  if (const std::string& why = built.made.info.fp16_warning; built.dtype == DType::f16 && !why.empty())
    report.warning("training.fp16 with " + why + "; training.bf16=true or training.fp16=false is safe");
  for (const std::string& text : built.warnings) report.warning(text);
  for (const std::string& text : resumed.skipped) report.warning(text);
  if (!resumed.skipped.empty() && !resumed.from.empty()) report.warning("resuming from " + resumed.from);
  for (const std::string& text : resumed.changes.warnings) report.warning(text);
  for (const std::string& text : resumed.changes.notes) report.note(text);
  for (const std::string& text : run.data.loaded.notes) report.note(text);
  if (const std::string text = on_plain_rows(config, built, run.data); !text.empty()) report.note(text);
  if (const std::string text = about_missing_invocations(built, run.data); !text.empty())
    report.warning(text);
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
  if (!given.deepspeed) return;
  const std::vector<std::string> lines = as_lines(*given.deepspeed, false);
  report.note(str(printable(given.deepspeed->file), ": ", given.deepspeed->rows.size(),
                  " keys; ft validate shows what becomes of each",
                  lines.empty() ? "" : "; keys that may surprise you:"));
  for (const std::string& line : lines) report.note("  " + line);
}

void answer_before(Predictions* predictions, Run& run, const RunHeader& head) {
  Engine& engine = run.engine();
  if (predictions)
    predictions->answer_before(engine.context, engine.store, head.resumed_step > 0, run.ranks.root());
}

std::function<Measures()> measuring(Predictions* predictions, Engine& engine, Report& report) {
  if (!predictions) return {};
  return [&, predictions] {
    return predictions->run(engine.context, engine.store,
                            [&](std::int64_t done, std::int64_t of) { report.evaluating(done, of); });
  };
}

// Returns a function that gives more columns of the log: the data's schedules, the answers' times and the
// observers' columns.
std::function<Measures(std::int64_t)> columns_of(Run& run) {
  return [&run](std::int64_t step) {
    Measures columns;
    if (run.data.efficient) columns = run.data.efficient->schedules(step);
    if (run.online) columns = run.online->shares();
    for (auto& column : run.columns()) columns.push_back(std::move(column));
    return columns;
  };
}

// Returns the parts of the training loop, with signals, the folder's files, answers and columns.
TrainerParts parts_of(Run& run, RunFolder& folder, Checkpoints& checkpoints, Predictions* predictions,
                      const StopSignals& stop, SaveSignal& save, Report& report) {
  TrainerParts parts = trainer_parts(run, checkpoints, report);
  parts.stop_asked = [&stop] { return stop.asked(); };
  parts.save_asked = [&save] { return save.take(); };
  parts.add_to_checkpoint = [&folder, &report](const std::string& to) {
    folder.add_to_checkpoint(to, report);
  };
  parts.measure = measuring(predictions, run.engine(), report);
  parts.columns = columns_of(run);
  return parts;
}

// Writes the answers of the finished model to the held-out prompts.
void predict(Predictions& predictions, Run& run, Report& report) {
  Engine& engine = run.engine();
  const BatchSource& data = *run.data.eval;
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const auto progress = [&](std::int64_t done, std::int64_t of) { report.evaluating(done, of); };
  const Evaluated e = evaluate(run.pass(), *run.objective.objective, data, progress);
  const Measures measures = predictions.run(engine.context, engine.store, progress);
  const std::chrono::duration<double> seconds = Clock::now() - start;
  if (engine.comm->rank() != 0) return;
  predictions.write(e.loss, seconds.count(), data.batches_per_epoch());
  report.note("predictions" + measures_text(measures));
  for (const std::string& line : predictions.before_and_after()) report.note(line);
}

// Loads the reference's log-probabilities from the file of an earlier run, or computes them and writes the
// file.
void know_reference(Run& run, Screen& screen) {
  std::optional<ReferenceFile> kept;
  if (run.engine().comm->rank() == 0) kept.emplace(run.config, run.built, run.objective, run.data);
  precompute_reference(run, screen, kept ? &*kept : nullptr);
}

// On rank 0, makes the objective write the answers that it generates, and report how many are begun.
void write_rollouts(Run& run, const TrainState& state, Report& report) {
  if (!run.online || !run.ranks.root()) return;
  run.online->write_to(run.config.training.output_dir, state.step, report);
  run.online->tell([&report](std::int64_t begun, std::int64_t of) { report.answering(begun, of); });
}

// Returns the reports of rank 0 and, on every rank, the observers.
std::unique_ptr<Reports> reports_of(Run& run, const DiskNeeds& needs, const TrainState& state,
                                    Screen& screen) {
  const RunConfig& config = run.config;
  auto all = std::make_unique<Reports>();
  if (run.ranks.root()) {
    all = make_reports(screen, config.logging, config.training.output_dir);
    all->add(std::make_unique<RoomWatch>(*all, config.training.output_dir, needs));
    all->add(std::make_unique<ForgetReplaced>(config.training.output_dir, *all));
    all->add(std::make_unique<Spikes>(*all));
    all->add(std::make_unique<NonFiniteRows>(join_path(config.training.output_dir, "nonfinite.jsonl"),
                                             run.data.batches(), run.data.tokenizer, *all));
  }
  write_rollouts(run, state, *all);
  for (auto& observer : run.take_observers()) all->add(std::move(observer));
  return all;
}

// Loads the best checkpoint if evaluation.load_best_model_at_end is set. If that checkpoint is damaged, warns
// and keeps the weights of the last step.
void load_best(Run& run, const TrainState& state, Checkpoints& checkpoints, Report& report) {
  const RunConfig& config = run.config;
  Communicator& comm = run.comm();
  if (!config.evaluation.load_best_model_at_end || !state.best) return;
  const std::string folder = checkpoint_path(config.training.output_dir, state.best_step);
  const std::string fault = shared(comm, comm.rank() == 0 ? fault_of(folder) : "");
  if (fault.empty()) return checkpoints.load_weights(folder);
  report.warning(fault + "; it was the best: the result is the last step's");
}

// Writes the result, the critic and predictions.
void finish(RunFolder& folder, ModelFiles& files, Run& run, Predictions* predictions, Report& report,
            Summary& end) {
  Engine& engine = run.engine();
  if (const auto& critic = run.objective.critic)
    folder.write_critic(*make_model_files(*critic), *engine.others.critic.store, *engine.comm);
  folder.finish(files, engine.store, *engine.comm, run.data.eval != nullptr, end, report);
  if (predictions) predict(*predictions, run, report);
}

// Returns the settings of the configuration, or those chosen for a model and data.
ReportedConfig settings_of(const TrainArgs& args) {
  const int ranks = ranks_here();
  if (args.begin.model.empty())
    return load_reported(args.config, args.settings(), {.ranks = ranks, .trains = true});
  if (ranks > 1 && !args.begin.as_given)
    throw UserError(Exit::config,
                    "ft train --model: each rank would choose its own settings; start the ranks with ft "
                    "launch, or write the settings first: ft new");
  Screen screen(Screen::standard_error());
  return {begin_training(args, 0, screen).config(), nullptr};
}

}  // namespace

Beginning begin_training(const TrainArgs& args, int ranks, Screen& screen) {
  Beginning beginning(args.begin, args.settings(), ranks);
  require_no_run(beginning.config(), args.overwrite);
  const RunConfig& config = beginning.choose(screen);
  screen.clear();
  if (shows_lines(config.logging)) beginning.show(screen);
  return beginning;
}

Exit train(const TrainArgs& args) {
  const ReportedConfig given = settings_of(args);
  SaveSignal save(given.config.checkpointing.save_on_signal);  // it ends no run that is still starting
  Run run(given.config);
  RunFolder folder(run.config, args.overwrite,
                   run.ranks.root());  // refuses unusable folders before anything takes time
  Screen screen(Screen::standard_error(run.progress()));
  run.build(screen);
  settle_steps(given, run);
  const auto predictions = make_predictions(run.config, run.built, run.data);
  run.observe(make_observers(args.trace, run, screen));
  folder.agree_on_checkpoint(run.comm());
  begin_from_data(run, folder, screen);
  RunHeader head = run_header(args.config, run);
  Engine& engine = run.start();
  if (run.objective.precomputes) know_reference(run, screen);
  const auto files = make_model_files(run.built);
  Checkpoints checkpoints(run.built.model(), engine.store, *engine.comm, *files,
                          run.config.training.output_dir, kMaxShardBytes, engine.others.critic);
  TrainState state = start_of(run);
  const Resumed resumed = folder.resume(checkpoints, state, head);
  require_same(*engine.comm, state.step, "the step to resume from");
  const DiskNeeds needs = disk_needs_of(run.config, head, checkpoints, *files);
  const StopSignals stop(run.config.checkpointing.save_on_signal, acknowledgement(run, screen));
  const std::string replaced = folder.create(needs, run.data.written, given.deepspeed.get());
  require_one_folder(*engine.comm, run.config.training.output_dir);
  const auto reports = reports_of(run, needs, state, screen);
  begin(given, *reports, head, resumed, run);
  note_waiting(run, *reports);
  if (!replaced.empty()) reports->note(replaced);
  answer_before(predictions.get(), run, head);
  Trainer trainer(parts_of(run, folder, checkpoints, predictions.get(), stop, save, *reports),
                  run.config.train());
  const std::int64_t first_tokens = state.tokens_seen;
  const Ending ending = trainer.run(state);
  Summary end = summary(run, state, trainer, first_tokens, ending, stop.name());
  if (ending != Ending::preempted) {
    load_best(run, state, checkpoints, *reports);
    finish(folder, *files, run, predictions.get(), *reports, end);
  }
  reports->end(end);
  return ending == Ending::preempted ? Exit::preempted : Exit::done;
}

}  // namespace ft
