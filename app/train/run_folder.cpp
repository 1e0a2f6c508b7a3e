#include "app/train/run_folder.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "app/deepspeed/report.h"
#include "app/files/model_files.h"
#include "app/train/next_commands.h"
#include "data/new_tokens.h"
#include "engine/core/typography.h"
#include "engine/dist/together.h"
#include "engine/io/checkpoint_folder.h"
#include "engine/io/file.h"
#include "engine/io/staged_folder.h"
#include "engine/train/json_log.h"

namespace ft {
namespace fs = std::filesystem;
namespace {

using From = decltype(TrainingConfig::resume_from_checkpoint);

// What only a run leaves behind.
bool holds_run(const std::string& folder) {
  for (const char* name : {"run.json", "log.jsonl", "trainer_state.json"})
    if (std::error_code none; fs::exists(fs::path(folder) / name, none)) return true;
  return false;
}

}  // namespace

RunFolder::RunFolder(const RunConfig& config, bool overwrite, bool root)
    : config_(config), folder_(config.training.output_dir), root_(root) {
  if (!root_) return;
  std::error_code none;
  for (fs::path p = folder_; !p.empty() && p != p.parent_path(); p = p.parent_path()) {
    if (!fs::exists(p, none)) continue;
    if (!fs::is_directory(p, none))
      throw UserError(Exit::config,
                      str("training.output_dir: ", folder_, ": ", p.string(), " is not a folder"));
    break;
  }
  const bool fresh = config.training.resume_from_checkpoint == From(Resume::none);
  if (fresh && !overwrite && holds_run(folder_))
    throw UserError(Exit::config, str("training.output_dir: ", folder_,
                                      " already contains a run; give another folder, "
                                      "training.resume_from_checkpoint=auto to continue it, or --overwrite"));
  replaces_ = fresh && holds_run(folder_);
  const BaseModelConfig& model = config.model;
  if (replaces_)
    require_outside(folder_, "training.output_dir",
                    {model.folder(), model.tokenizer(), config.lora.adapter_name_or_path.value_or("")});
}

std::string RunFolder::path(const char* name) const { return join_path(folder_, name); }

NewestCheckpoint RunFolder::found() const {
  const From& from = config_.training.resume_from_checkpoint;
  if (from == From(Resume::none)) return {};
  if (const auto* folder = std::get_if<std::string>(&from)) return {open_checkpoint(*folder), {}};
  NewestCheckpoint found = find_newest_checkpoint(folder_);
  if (!found.checkpoint && from == From(Resume::newest))
    throw UserError(Exit::checkpoint,
                    str("training.resume_from_checkpoint: there is no complete checkpoint in ", folder_,
                        "; auto would start from the beginning"));
  return found;
}

Resumed RunFolder::resume(Checkpoints& checkpoints, TrainState& state, RunHeader& header) {
  const NewestCheckpoint found = this->found();
  if (!found.checkpoint) return {"", found.skipped};
  const TrainState saved = checkpoints.load(*found.checkpoint);
  if (saved.batches_per_epoch != state.batches_per_epoch || saved.accumulation != state.accumulation)
    throw UserError(Exit::checkpoint,
                    str(found.checkpoint->path, ": saved with ", saved.batches_per_epoch,
                        " micro-batches per epoch, ", saved.accumulation, " per step; this run has ",
                        state.batches_per_epoch, " and ", state.accumulation,
                        ": the data, its batch size or gradient_accumulation_steps times ranks changed"));
  state = saved;
  header.resumed_step = state.step;
  header.past = read_log(path("log.jsonl"), state.step);
  return {found.checkpoint->path, found.skipped};
}

void RunFolder::create() {
  if (!root_) return;
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) throw UserError(Exit::storage, str(folder_, ": cannot make the folder: ", error.message()));
  remove_leftovers(folder_);  // of runs that were killed
  if (replaces_) remove_run();
  write_file(path("run.json"), effective_config(config_) + "\n");
  if (config_.report) write_file(path("deepspeed.json"), deepspeed::as_file(*config_.report));
}

// Else a run that is resumed would go on from a checkpoint of the old one.
void RunFolder::remove_run() const {
  for (const std::int64_t step : list_checkpoints(folder_)) remove_folder(checkpoint_path(folder_, step));
  std::error_code none;
  for (const char* name : {"runs", "csv", "wandb", "mlruns", "ema", "critic"})
    if (fs::exists(path(name), none)) remove_folder(path(name));
  for (const char* name : {"log.jsonl", "trainer_state.json", "loss.svg", "deepspeed.json", "report.html",
                           "samples.json", "rollouts.jsonl", "reward_command.log"})
    fs::remove(path(name), none);
  remove_result(folder_);
}

// An adapter gets the tokenizer that it was trained with; a complete model gets everything that makes it a
// base model.
void RunFolder::copy_companions_to(const std::string& folder) const {
  const BaseModelConfig& model = config_.model;
  if (config_.finetuning_type == FinetuningType::lora)
    copy_tokenizer(model.tokenizer(), folder);
  else
    copy_companions(model.folder(), model.tokenizer(), folder);
  write_new_tokens(folder, new_tokens(config_.data));
}

void RunFolder::add_to_checkpoint(const std::string& folder) {
  write_file(join_path(folder, "run.json"), effective_config(config_) + "\n");
  copy_companions_to(folder);
}

// Beside first, and then each file gets its name: what was there is replaced by what is whole.
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
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());  // an index comes after its files
    for (const std::string& name : names) {
      std::error_code error;
      fs::rename(join_path(folder, name), join_path(folder_, name), error);
      if (error)
        throw UserError(Exit::storage,
                        str(join_path(folder_, name), ": cannot be written: ", error.message()));
    }
    sync_folder(folder_);
  });
}

// A folder like the result, in it.
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
                       Summary& summary) {
  write_result(files, store, comm);
  if (config_.training.ema_decay) write_folder("ema", files, store, comm, Content::average);
  if (!root_) return;
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
  if (config_.objective.type == ObjectiveType::ppo) summary.made.push_back({"critic", path("critic"), 0});
  const LoggingConfig& log = config_.logging;
  if (std::ranges::count(log.report_to, Reporter::wandb) > 0)
    summary.next.push_back("wandb sync " +
                           shell_line({log.wandb.output_path.empty() ? folder_ : log.wandb.output_path}) +
                           "/wandb/offline-run-*");
  if (config_.logging.plot_loss) summary.made.push_back({"plot", path("loss.svg"), 0});
  if (config_.logging.html_report) summary.made.push_back({"report", path("report.html"), 0});
}

}  // namespace ft
