// Room for all that a run writes into its folder: computed before the first step, and watched.
#pragma once
#include <cstdint>

#include "app/config/config.h"
#include "engine/train/checkpoint.h"
#include "engine/train/reports/report.h"

namespace ft {

// Bytes of the files that a run still writes.
struct DiskNeeds {
  std::int64_t result = 0, checkpoint = 0, logs = 0;
  std::int64_t checkpoints = 0;  // that are there at the same time, and not yet
  std::int64_t all() const { return result + checkpoints * checkpoint + logs; }
};
DiskNeeds disk_needs_of(const RunConfig&, const RunHeader&, const Checkpoints&, const ModelFiles&);

// Throws UserError (storage) where the output folder's disk has no room for them. `freed`: bytes that are
// removed before.
void require_room(const RunConfig&, const DiskNeeds&, std::int64_t freed);

// Warns once when the room has become too small for the next checkpoint and the result.
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
