#include "app/train/run_folder.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <span>

#include "app/deepspeed/report.h"
#include "app/files/model_files.h"
#include "app/files/output_folder.h"
#include "app/rollouts/remote_answers.h"
#include "app/train/checkpoints/best_checkpoint.h"
#include "app/train/checkpoints/sources.h"
#include "app/train/next_commands.h"
#include "app/train/replaced_run.h"
#include "data/batches/kept_prompts.h"
#include "data/tokenizers/new_tokens.h"
#include "engine/core/typography.h"
#include "engine/files/checkpoint_folder.h"
#include "engine/files/file.h"
#include "engine/files/links.h"
#include "engine/files/make_folders.h"
#include "engine/files/room.h"
#include "engine/files/staged_folder.h"
#include "engine/ranks/together.h"
#include "engine/train/reports/json_log.h"

namespace ft {
namespace fs = std::filesystem;
namespace {

using From = decltype(TrainingConfig::resume_from_checkpoint);

// Folders and files of a run that --overwrite replaces, in addition to its result.
constexpr std::array kFolders{"runs", "csv", "wandb", "mlruns", "ema", "critic", kRolloutAdapter};
constexpr std::array kFiles{"log.jsonl",       "trainer_state.json", "loss.svg",       "deepspeed.json",
                            "report.html",     "samples.json",       "rollouts.jsonl", "reward_command.log",
                            "nonfinite.jsonl", "run_facts.json"};

bool is_one_of(const auto& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Returns what --overwrite replaces: checkpoints, and the run's other files and folders.
std::vector<fs::path> parts_of_run(const std::string& folder) {
  std::vector<fs::path> all;
  for (const std::int64_t step : list_checkpoints(folder)) all.emplace_back(checkpoint_path(folder, step));
  for (const fs::path& file : files_of_result(folder)) all.push_back(file);
  for (const auto& names : {std::span<const char* const>(kFolders), std::span<const char* const>(kFiles)})
    for (const char* name : names)
      if (path_exists(join_path(folder, name))) all.emplace_back(join_path(folder, name));
  return all;
}

std::int64_t bytes_of(const fs::path& part) {
  std::error_code none;
  if (fs::is_regular_file(part, none)) return static_cast<std::int64_t>(fs::file_size(part, none));
  std::int64_t all = 0;
  for (auto entry = fs::recursive_directory_iterator(part, none); entry != fs::end(entry);
       entry.increment(none))
    if (entry->is_regular_file(none)) all += static_cast<std::int64_t>(entry->file_size(none));
  return all;
}

// Returns the folders of models that a run reads, as its settings name them.
std::vector<std::string> models_read(const RunConfig& c) {
  std::vector<std::string> all = {c.model.folder(), c.model.tokenizer()};
  if (c.lora.adapter_name_or_path) all.push_back(*c.lora.adapter_name_or_path);
  for (const NamedFile& file : files_of(c.objective))
    if (file.is_model) all.push_back(file.name);
  return all;
}

// Returns the run's data files that --overwrite would replace, such as another run's answers used as training
// data.
std::vector<std::string> data_replaced(const RunConfig& c) {
  std::vector<std::string> all;
  for (const auto* sets : {&c.data.datasets, &c.data.eval_datasets})
    for (const DatasetConfig& d : *sets)
      if (is_one_of(kFiles, fs::path(d.path).filename().string())) all.push_back(d.path);
  return all;
}

// Describes the change of batches between the checkpoint's run and this run.
std::string other_batches(const TrainState& was, const TrainState& now) {
  return str("an epoch was ", was.batches_per_epoch, " micro-batches, ", was.accumulation,
             " a step on all ranks, "
             "and is ",
             now.batches_per_epoch, ", ", now.accumulation,
             " a step now: the run goes on at its step, "
             "and samples may be seen again or missed");
}

// Throws UserError (storage) if a file or a folder that a run writes is a symbolic link.
void refuse_links_in_run(const std::string& folder) {
  for (const auto& names : {std::span<const char* const>(kFolders), std::span<const char* const>(kFiles)})
    for (const char* name : names) refuse_links(folder, name);
  for (const char* name : {"replaced-run", "replaced-run.part"}) refuse_links(folder, name);
}

// True if the folder has files of a run.
bool holds_run(const std::string& folder) {
  for (const char* name : {"run.json", "log.jsonl", "trainer_state.json"})
    if (std::error_code none; fs::exists(fs::path(folder) / name, none)) return true;
  return false;
}

}  // namespace

void require_place(const RunConfig& config) {
  const std::string& folder = config.training.output_dir;
  require_writable(folder, "training.output_dir");
  require_other_folder(folder, "training.output_dir", models_read(config));
}

void require_no_run(const RunConfig& config, bool overwrite) {
  const TrainingConfig& t = config.training;
  if (t.resume_from_checkpoint == From(Resume::none) && !overwrite && holds_run(t.output_dir))
    throw UserError(Exit::config, str("training.output_dir: ", t.output_dir,
                                      " already contains a run; give another folder, "
                                      "training.resume_from_checkpoint=auto to continue it, or --overwrite"));
}

RunFolder::RunFolder(const RunConfig& config, bool overwrite, bool root)
    : config_(config), folder_(config.training.output_dir), root_(root), overwrite_(overwrite) {
  if (!root_) return;
  require_place(config);
  std::error_code none;
  if (fs::exists(folder_, none)) lock();
  require_no_run(config_, overwrite_);
  replaces_ = is_being_replaced(folder_) ||
              (config.training.resume_from_checkpoint == From(Resume::none) && holds_run(folder_));
  if (replaces_ || !replaced_run(folder_).empty()) {
    require_outside(folder_, "training.output_dir", models_read(config));
    require_outside(folder_, "training.output_dir", data_replaced(config));
  }
  sources_ = sources_of(config);
  found_ = find_checkpoint();
  if (checkpoint()) changes_ = changes_since(*checkpoint(), config, sources_);
}

void RunFolder::lock() {
  if (!lock_.take(folder_))
    throw UserError(Exit::config,
                    str("training.output_dir: ", folder_,
                        ": another run is going on in this folder; give another folder, or wait "
                        "for its end"));
}

std::string RunFolder::path(const char* name) const { return join_path(folder_, name); }

NewestCheckpoint RunFolder::find_checkpoint() const {
  const From& from = config_.training.resume_from_checkpoint;
  if (from == From(Resume::none)) return {};
  if (const auto* folder = std::get_if<std::string>(&from)) return {open_checkpoint(*folder), {}};
  NewestCheckpoint found;
  if (!is_being_replaced(folder_)) found = find_newest_checkpoint(folder_);
  if (!found.checkpoint && from == From(Resume::newest)) {
    std::string faults;
    for (const std::string& fault : found.skipped) faults += "\n  " + fault;
    throw UserError(Exit::checkpoint,
                    str("training.resume_from_checkpoint: there is no complete checkpoint in ", folder_,
                        "; auto would start from the beginning", faults));
  }
  return found;
}

void RunFolder::agree_on_checkpoint(Communicator& comm) {
  const std::string path = shared(comm, checkpoint() ? checkpoint()->path : "");
  if (path.empty()) return;
  together(comm, "read the checkpoint", [&] {
    if (!root_) found_.checkpoint = read_checkpoint(path);
  });
}

Resumed RunFolder::resume(Checkpoints& checkpoints, TrainState& state, RunHeader& header) {
  Resumed resumed{.from = "", .skipped = found_.skipped, .changes = changes_};
  const TrainState fresh = state;
  if (checkpoint()) {
    resumed.from = checkpoint()->path;
    state = checkpoints.load(*checkpoint(), !begins_other_optimizer(*checkpoint(), config_));
    header.resumed_step = state.step;
    header.past = read_log(path("log.jsonl"), state.step);
    std::vector<std::string>& warnings = resumed.changes.warnings;
    if (state.batches_per_epoch != fresh.batches_per_epoch || state.accumulation != fresh.accumulation)
      warnings.push_back(other_batches(state, fresh));
    if (state.step > header.steps)
      warnings.push_back(str("the run is to have ", header.steps, " steps and the checkpoint has done ",
                             state.step, ": nothing is trained, and the result is the checkpoint's"));
    const bool whole = same_place(checkpoint_path(folder_, state.step), resumed.from);
    if (const std::string gone =
            settle_best(state, header.past, config_.evaluation, folder_, whole ? state.step : -1);
        !gone.empty())
      warnings.push_back(gone);
    header.best_step = state.best_step;
    if (config_.evaluation.load_best_model_at_end) spared_ = {state.best_step};
  }
  state.batches_per_epoch = fresh.batches_per_epoch;
  state.accumulation = fresh.accumulation;
  state.sources = sources_;
  return resumed;
}

std::string RunFolder::create(const DiskNeeds& needs, Written written, const deepspeed::Report* report) {
  written_ = written;
  if (report) deepspeed_ = deepspeed::as_file(*report);
  if (!root_) return "";
  make_folders(folder_);
  if (!lock_.taken()) {
    lock();
    require_no_run(config_, overwrite_);  // a run may have begun and ended since the last check
  }
  refuse_links_in_run(folder_);
  remove_leftovers(folder_);  // left by killed runs
  std::string note;
  if (replaces_)
    note = move_run_away(needs);
  else
    require_room(config_, needs, 0);
  if (goes_on_here()) remove_replaced(folder_);
  prune();
  write_settings();
  return note;
}

// True if the run resumes from a checkpoint in its own folder.
bool RunFolder::goes_on_here() const {
  return checkpoint() && !replaces_ && same_place(folder_of(without_slash(checkpoint()->path)), folder_);
}

// Removes the checkpoints that a run killed between a save and its pruning has left.
void RunFolder::prune() const {
  const auto most = config_.checkpointing.save_total_limit;
  const bool newest = std::holds_alternative<Resume>(config_.training.resume_from_checkpoint);
  if (!checkpoint() || !newest || !most) return;
  std::vector<std::int64_t> spared = spared_;
  spared.push_back(checkpoint()->step);  // newer ones may be damaged
  prune_checkpoints(folder_, *most, spared);
}

// Moves the old run away: otherwise a resumed run could continue from its checkpoints. If the disk has no
// room for both, removes it at once. Returns a note.
std::string RunFolder::move_run_away(const DiskNeeds& needs) const {
  const std::vector<fs::path> parts = parts_of_run(folder_);
  std::int64_t freed = keeps_older_run(folder_, parts) ? 0 : bytes_of(replaced_run(folder_));
  const bool both = has_room(config_, needs, freed);
  for (const fs::path& part : parts) freed += bytes_of(part);
  require_room(config_, needs, freed);
  move_into_replaced(folder_, parts);
  if (!both) remove_replaced(folder_);
  return both ? str("the run that was there is in ", printable(replaced_run(folder_)),
                    " until this one has a checkpoint or ends")
              : "the run that was there is removed: the disk has no room for both";
}

void RunFolder::write_settings() const {
  write_file(path("run.json"), effective_config(config_));
  if (!deepspeed_.empty()) write_file(path("deepspeed.json"), deepspeed_);
}

// Makes the run's folder again if somebody has removed it or moved it away.
void RunFolder::make_again(Report& report) {
  if (lock_.is_of(folder_)) return;
  make_folders(folder_);
  lock();
  write_settings();
  report.warning(
      str("training.output_dir: ", printable(folder_),
          " was removed during the run; it is made again, without the checkpoints and rows so far"));
}

// Copies the files beside the weights: for an adapter the tokenizer of its training, for a complete model all
// files of a model folder.
void RunFolder::copy_companions_to(const std::string& folder) const {
  const BaseModelConfig& model = config_.model;
  if (config_.finetuning_type == FinetuningType::lora)
    copy_tokenizer(model.tokenizer(), folder);
  else
    copy_companions(model.folder(), model.tokenizer(), folder);
  write_new_tokens(folder, new_tokens(config_.data));
  ft::keep_prompts(folder, written_, config_.data, model.tokenizer());
  const bool answers = !config_.objective.type->scores;
  if (answers && config_.finetuning_type == FinetuningType::full) end_at_turns(folder);
}

void RunFolder::add_to_checkpoint(const std::string& folder, Report& report) {
  make_again(report);
  write_file(join_path(folder, "run.json"), effective_config(config_));
  copy_companions_to(folder);
}

// Writes the result into a temporary folder, and then moves its files.
void RunFolder::write_result(ModelFiles& files, ParameterStore& store, Communicator& comm) const {
  std::optional<StagedFolder> staged;
  together(comm, "begin the result", [&] {
    if (!root_) return;
    staged.emplace(path("result"));
    files.create(staged->path(), false);
    copy_companions_to(staged->path());
  });
  const std::string folder = shared(comm, root_ ? staged->path() : "");
  together(comm, "write its part of the result", [&] { fill_in(folder, store, files, Content::weights); });
  together(comm, "complete the result", [&] {
    if (!root_) return;
    files.complete(folder);
    move_result(folder, folder_);
  });
}

// Writes a folder with the same files as the result, inside the run's folder.
void RunFolder::write_folder(const char* name, ModelFiles& files, ParameterStore& store, Communicator& comm,
                             Content content) const {
  std::optional<StagedFolder> staged;
  together(comm, str("begin ", name), [&] {
    if (!root_) return;
    staged.emplace(path(name));
    files.create(staged->path(), false);
    copy_companions_to(staged->path());
  });
  const std::string folder = shared(comm, root_ ? staged->path() : "");
  together(comm, str("write its part of ", name), [&] { fill_in(folder, store, files, content); });
  together(comm, str("complete ", name), [&] {
    if (!root_) return;
    files.complete(folder);
    staged->commit(true);
  });
}

void RunFolder::write_critic(ModelFiles& files, ParameterStore& store, Communicator& comm) const {
  write_folder("critic", files, store, comm, Content::weights);
}

void RunFolder::finish(ModelFiles& files, ParameterStore& store, Communicator& comm, bool held_out,
                       Summary& summary, Report& report) {
  if (root_) make_again(report);
  write_result(files, store, comm);
  if (config_.training.ema_decay) write_folder("ema", files, store, comm, Content::average);
  if (!root_) return;
  remove_replaced(folder_);
  auto made = [&](const char* what, const char* name) {
    std::error_code none;
    const auto bytes = fs::file_size(path(name), none);
    summary.made.push_back({what, path(name), none ? 0 : static_cast<std::int64_t>(bytes)});
  };
  if (config_.finetuning_type == FinetuningType::lora)
    made("adapter", "adapter_model.safetensors");
  else
    made("model", "model.safetensors");
  summary.next = next_commands({config_, comm.size(), held_out, holds_tokenizer(folder_)});
  if (config_.training.ema_decay) summary.made.push_back({"average", path("ema"), 0});
  if (config_.objective.type->critic) summary.made.push_back({"critic", path("critic"), 0});
  const LoggingConfig& log = config_.logging;
  if (std::ranges::count(log.report_to, Reporter::wandb) > 0)
    summary.next.push_back("wandb sync " +
                           shell_line({log.wandb.output_path.empty() ? folder_ : log.wandb.output_path}) +
                           "/wandb/offline-run-*");
  if (config_.logging.plot_loss) summary.made.push_back({"plot", path("loss.svg"), 0});
  if (config_.logging.html_report) summary.made.push_back({"report", path("report.html"), 0});
}

}  // namespace ft
