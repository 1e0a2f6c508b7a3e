// Saves a run's checkpoints: training waits, or goes on beside it. To save beside training, ranks copy their
// parts into snapshots, a thread of each rank writes its part, and a thread of rank 0 seals the checkpoint
// when all parts are written. The ranks find that out once a step, so that no thread sends messages. One
// checkpoint is written at a time; the next one waits. Both ways give the same bits in training and in the
// files.
#pragma once
#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "engine/ranks/work_queue.h"
#include "engine/train/checkpoint.h"
#include "engine/train/reports/report.h"
#include "engine/train/snapshot.h"

namespace ft {

class Saving {
 public:
  // comm: all ranks of the run. snapshot: null if training waits.
  Saving(Checkpoints&, Communicator& comm, Report&, Snapshot* snapshot);
  // Waits for the thread, and reports the checkpoint if it is complete. A checkpoint that not all ranks have
  // written is dropped.
  ~Saving();
  Saving(const Saving&) = delete;
  Saving& operator=(const Saving&) = delete;

  // Saves a checkpoint; every rank calls it at the same step. extra: see Checkpoints::save. prune: called on
  // rank 0, perhaps by the thread, when the checkpoint is complete on disk and reported. Throws on all ranks
  // if this checkpoint, or the one before, could not be written.
  void save(const TrainState&, const std::function<void(const std::string& folder)>& extra,
            std::function<void()> prune);
  // Waits until the last checkpoint is complete and reports it. Every rank calls it. Throws if it could not
  // be written.
  void finish();

  // State that the ranks compare once a step.
  bool written() const { return part_ == Part::written; }  // this rank's part is written, but not yet all
  bool failed() const { return part_ == Part::failed; }    // save() and finish() will throw
  void all_written();                                      // every rank has written its part
  // Reports a checkpoint that has become complete, and has older ones removed.
  void look();

 private:
  enum class Part : std::uint8_t { none, writing, written, sealing, complete, failed };
  void in_thread(Part now, Part then, std::function<void()> work);
  void seal();
  void wait();  // for the thread
  void end();

  Checkpoints& checkpoints_;
  Communicator& comm_;
  Report& report_;
  Snapshot* snapshot_;
  // The last checkpoint: pending until finish(), agreed after all_written().
  Checkpoints::Begun begun_;
  std::function<void()> prune_;
  SavedRow row_;
  double start_ = 0;
  bool pending_ = false, agreed_ = false;
  std::atomic<Part> part_ = Part::none;
  std::optional<WorkQueue> thread_;  // last member: it uses the others
};

}  // namespace ft
