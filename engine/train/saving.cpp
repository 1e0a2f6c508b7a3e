#include "engine/train/saving.h"

#include <chrono>
#include <utility>

#include "engine/ranks/together.h"
#include "engine/train/part_filler.h"

namespace ft {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Saving::Saving(Checkpoints& checkpoints, Communicator& comm, Report& report, Snapshot* snapshot)
    : checkpoints_(checkpoints), comm_(comm), report_(report), snapshot_(snapshot) {
  if (snapshot_) thread_.emplace();
}

Saving::~Saving() {
  try {
    wait();
    look();
    wait();
  } catch (...) {  // the run ends for another reason
  }
}

void Saving::save(const TrainState& state, const std::function<void(const std::string&)>& extra,
                  std::function<void()> prune) {
  finish();
  start_ = now();
  row_ = {.step = state.step};
  part_ = Part::none;
  prune_ = std::move(prune);
  begun_ = checkpoints_.begin(state, extra);
  if (!snapshot_) {
    together(comm_, Checkpoints::kWritePart, [&] {
      PartFiller filler(begun_.folder);
      checkpoints_.send_part(begun_, filler);
      filler.sync();
    });
    together(comm_, Checkpoints::kComplete, [&] {
      seal();
      part_ = Part::complete;
      look();  // here, because another rank may be lost now
    });
    return end();
  }
  together(comm_, "copy its part", [&] {
    snapshot_->clear();
    checkpoints_.send_part(begun_, *snapshot_);
  });
  row_.waited = now() - start_;
  const bool alone = comm_.size() == 1;
  agreed_ = alone;
  pending_ = true;
  in_thread(Part::writing, alone ? Part::complete : Part::written, [this, alone] {
    snapshot_->fill_in(begun_.folder);
    if (alone) seal();
  });
}

void Saving::all_written() {
  agreed_ = true;
  if (comm_.rank() == 0)
    in_thread(Part::sealing, Part::complete, [this] { seal(); });
  else
    part_ = Part::complete;
}

void Saving::finish() {
  if (!pending_) return;
  const double start = now();
  if (!agreed_) {
    together(comm_, Checkpoints::kWritePart, [this] { wait(); });
    all_written();
  }
  together(comm_, Checkpoints::kComplete, [&] {
    wait();
    if (row_.waited) *row_.waited += now() - start;
    look();
    wait();
  });
  end();
}

void Saving::wait() {
  if (thread_) thread_->wait_all();
}

void Saving::end() {
  part_ = Part::none;
  pending_ = false;
}

// Removes older checkpoints only after the new one is reported: an error there is of a checkpoint that the
// log knows.
void Saving::look() {
  if (comm_.rank() != 0 || part_ != Part::complete || row_.folder.empty()) return;
  report_.saved(std::exchange(row_, {}));
  if (thread_)
    in_thread(Part::sealing, Part::complete, prune_);
  else
    prune_();
}

// Runs work in the thread. part_ is `now` while it runs and `then` when it is done.
void Saving::in_thread(Part now, Part then, std::function<void()> work) {
  part_ = now;
  thread_->give([this, then, work = std::move(work)] {
    try {
      work();
    } catch (...) {
      part_ = Part::failed;
      throw;
    }
    part_ = then;
  });
}

// Completes the checkpoint on rank 0.
void Saving::seal() {
  const std::string folder = checkpoints_.complete(begun_);
  if (comm_.rank() != 0) return;
  row_.seconds = now() - start_;
  row_.folder = folder;
}

}  // namespace ft
