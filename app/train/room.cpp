#include "app/train/room.h"

#include <algorithm>

#include "app/files/model_files.h"
#include "app/screen/format.h"
#include "engine/core/divide.h"
#include "engine/files/checkpoint_folder.h"
#include "engine/files/room.h"

namespace ft {
namespace {

constexpr std::int64_t kRow = 600;           // bytes of a row in log.jsonl and trainer_state.json together
constexpr std::int64_t kRunFile = 16 << 10;  // run.json
constexpr std::int64_t kPicture = 32 << 10, kPage = 128 << 10;  // loss.svg, report.html

// Counts the multiples of `every` after step `after` up to step `last`, and `last` itself.
std::int64_t multiples(std::int64_t after, std::int64_t last, std::int64_t every) {
  if (every <= 0 || last <= after) return 0;
  return last / every - after / every + (last % every ? 1 : 0);
}

// Returns the number of checkpoints that the remaining steps save.
std::int64_t saves(const RunConfig& c, const RunHeader& h) {
  const SaveStrategy strategy = c.checkpointing.save_strategy;
  if (strategy == SaveStrategy::no || h.steps <= h.resumed_step) return 0;
  if (strategy == SaveStrategy::best) return 1;
  return multiples(h.resumed_step, h.steps,
                   strategy == SaveStrategy::steps ? h.save_steps : h.steps_per_epoch);
}

// Returns the number of new checkpoints that exist at the same time: an old one is removed only after a new
// one is complete.
std::int64_t saves_at_once(const RunConfig& c, const RunHeader& h) {
  const std::int64_t all = saves(c, h);
  const auto limit = c.checkpointing.save_total_limit;
  if (!limit || all == 0) return all;
  const auto there = h.resumed_step > 0 ? std::ssize(list_checkpoints(c.training.output_dir)) : 0;
  const std::int64_t most = *limit + 1 + (c.evaluation.load_best_model_at_end ? 1 : 0);
  return std::clamp<std::int64_t>(most - there, 1, all);
}

}  // namespace

DiskNeeds disk_needs_of(const RunConfig& c, const RunHeader& h, const Checkpoints& checkpoints,
                        const ModelFiles& files) {
  const bool adapter = c.finetuning_type == FinetuningType::lora;
  const std::int64_t companions =
      companion_bytes(adapter ? "" : c.model.folder(), c.model.tokenizer()) + kRunFile;
  const std::int64_t rows =
      multiples(h.resumed_step, h.steps, h.logging_steps) + multiples(h.resumed_step, h.steps, h.eval_steps);
  DiskNeeds w;
  w.result = (c.training.ema_decay ? 2 : 1) * (files.bytes(false) + companions);
  w.checkpoint = checkpoints.bytes() + companions + rows * kRow / 4;  // its rows: on average half of all
  w.checkpoints = saves_at_once(c, h);
  w.logs = rows * kRow + (c.logging.plot_loss ? kPicture : 0) + (c.logging.html_report ? kPage : 0);
  return w;
}

bool has_room(const RunConfig& config, const DiskNeeds& w, std::int64_t freed) {
  const auto there = free_bytes(config.training.output_dir);
  return !there || *there + freed >= w.all();
}

void require_room(const RunConfig& config, const DiskNeeds& w, std::int64_t freed) {
  if (has_room(config, w, freed)) return;
  const std::string& folder = config.training.output_dir;
  const auto there = free_bytes(folder);
  std::string parts = "the result takes " + show::file_size(w.result);
  if (w.checkpoints > 0)
    parts += str(", ", show::plural(w.checkpoints, "checkpoint"), " of ", show::file_size(w.checkpoint),
                 w.checkpoints > 1 ? " each" : "");
  throw UserError(Exit::storage,
                  str("training.output_dir: ", printable(folder), ": the disk has ",
                      show::file_size(*there + freed), " left, and the run writes ", show::file_size(w.all()),
                      " (", parts, ", logs ", show::file_size(w.logs), "); make room, give another folder",
                      w.checkpoints > 1 ? ", or keep fewer with checkpointing.save_total_limit" : ""));
}

void RoomWatch::step(const StepRow&) {
  const auto there = warned_ ? std::nullopt : free_bytes(folder_);
  if (!there || *there >= least_) return;
  warned_ = true;
  to_.warning(str(printable(folder_), ": the disk has ", show::file_size(*there),
                  " left; a checkpoint and the result take ", show::file_size(least_),
                  ": make room, or the run ends without them"));
}

}  // namespace ft
