// Disk space for the files of a run: checked before the first step, and watched during the run.
#pragma once
#include <cstdint>

#include "app/config/config.h"
#include "engine/train/checkpoint.h"
#include "engine/train/reports/report.h"

namespace ft {

// Bytes of the files that a run will write.
struct DiskNeeds {
  std::int64_t result = 0, checkpoint = 0, logs = 0;
  std::int64_t checkpoints = 0;  // number of new checkpoints that exist at the same time
  std::int64_t all() const { return result + checkpoints * checkpoint + logs; }
};
DiskNeeds disk_needs_of(const RunConfig&, const RunHeader&, const Checkpoints&, const ModelFiles&);

// True if the output folder's disk has room for these files. `freed`: bytes that are removed before.
bool has_room(const RunConfig&, const DiskNeeds&, std::int64_t freed);

// Throws UserError (storage) if the output folder's disk is too small for these files, as has_room().
void require_room(const RunConfig&, const DiskNeeds&, std::int64_t freed);

// Warns once if the disk has become too small for the next checkpoint and the result.
class RoomWatch final : public Report {
 public:
  RoomWatch(Report& to, std::string folder, const DiskNeeds& needs)
      : to_(to), folder_(std::move(folder)), least_(needs.result + needs.checkpoint) {}
  void step(const StepRow& row) override;

 private:
  Report& to_;
  std::string folder_;
  std::int64_t least_;
  bool warned_ = false;
};

}  // namespace ft
