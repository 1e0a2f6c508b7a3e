#include "app/train/reference.h"

namespace ft {
namespace {

// Of every sequence of the data, in the order of its samples; ranks take batches in turns.
std::vector<double> logps_of(const Pass& pass, Communicator& comm, Objective& objective, const Batcher& data,
                             const std::function<void(std::int64_t, std::int64_t)>& progress) {
  const std::int64_t each = data.data().kind() == RowKind::pair ? 2 : 1, batches = data.batches_per_epoch();
  const auto size = static_cast<std::size_t>(data.options().batch_size * each);
  std::vector<double> all(static_cast<std::size_t>(data.data().size() * each));
  for (std::int64_t first = 0; first < batches; first += comm.size()) {
    std::vector<double> mine(size), sums(size * static_cast<std::size_t>(comm.size()));
    // A rank without a batch of its own makes the last one's passes with the others.
    const std::int64_t i = std::min(first + comm.rank(), batches - 1);
    mine = objective.logps(pass, data.batch(0, i), static_cast<bool>(pass.reference));
    if (first + comm.rank() < batches)
      std::copy(mine.begin(), mine.end(), sums.begin() + static_cast<std::ptrdiff_t>(size) * comm.rank());
    sum_over_ranks(pass.context, comm, sums);
    for (int r = 0; r < comm.size() && first + r < batches; ++r) {
      const Batch batch = data.batch(0, first + r);
      for (std::size_t s = 0; s < batch.compared.first_answer.size(); ++s) {
        const auto sample =
            static_cast<std::size_t>(batch.compared.sample[s / static_cast<std::size_t>(each)]);
        all[sample * static_cast<std::size_t>(each) + s % static_cast<std::size_t>(each)] =
            sums[size * static_cast<std::size_t>(r) + s];
      }
    }
    progress(std::min(first + comm.size(), batches), batches);
  }
  return all;
}

}  // namespace

void precompute_reference(Engine& engine, const BuiltModel& built, const BuiltObjective& objective,
                          BuiltData& data, Screen& screen) {
  const Pass pass = engine.pass(built.model());
  for (Batcher* part : {data.train.get(), data.eval.get()}) {
    if (!part) continue;
    Working working(screen, "computing the reference", "batches");
    part->set_reference(logps_of(pass, engine.grid.zero(), *objective.objective, *part,
                                 [&](std::int64_t done, std::int64_t of) { working(done, of); }));
  }
  objective.objective->reference_is_known();
}

}  // namespace ft
