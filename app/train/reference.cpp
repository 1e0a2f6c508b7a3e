#include "app/train/reference.h"

#include <optional>

#include "app/screen/format.h"
#include "app/train/reference_file.h"
#include "engine/ranks/together.h"

namespace ft {
namespace {

// Returns the log-probability of every sequence, in the order of the samples. Ranks take batches in turns.
std::vector<double> logps_of(const Pass& pass, Communicator& comm, Objective& objective, const Batcher& data,
                             const std::function<void(std::int64_t, std::int64_t)>& progress) {
  const std::int64_t each = data.data().kind() == RowKind::pair ? 2 : 1, batches = data.batches_per_epoch();
  const auto size = static_cast<std::size_t>(data.options().batch_size * each);
  std::vector<double> all(static_cast<std::size_t>(data.data().size() * each));
  for (std::int64_t first = 0; first < batches; first += comm.size()) {
    std::vector<double> mine(size), sums(size * static_cast<std::size_t>(comm.size()));
    // A rank without a batch repeats the last one, so that all ranks make the same passes.
    const std::int64_t i = std::min(first + comm.rank(), batches - 1);
    mine = objective.logps(pass, data.batch(0, i), static_cast<bool>(pass.others.reference));
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

// Copies the root's numbers to all ranks.
void share(const Pass& pass, Communicator& comm, std::vector<double>& values, std::size_t sequences) {
  if (comm.rank() != 0) values.assign(sequences, 0);
  sum_over_ranks(pass.context, comm, values);
}

// Reads the log-probabilities from the root's file. Returns true if it has them; then all ranks have them.
bool take_from_file(const Pass& pass, Communicator& comm, const ReferenceFile* file, const BuiltData& data,
                    ReferenceLogps& r, Screen& screen) {
  std::string why;
  std::optional<ReferenceLogps> kept;
  if (file) kept = file->read(why);
  if (!why.empty()) screen.line(str(show::path(file->path()), " ", why, ": computed again"));
  std::vector<double> found{kept ? 1.0 : 0.0};
  sum_over_ranks(pass.context, comm, found);
  if (found[0] == 0) return false;
  if (kept) screen.line("reference: read from " + show::path(file->path()));
  if (kept) r = std::move(*kept);
  share(pass, comm, r.train, sequences_of(data.train.get()));
  share(pass, comm, r.eval, sequences_of(data.eval.get()));
  return true;
}

}  // namespace

void precompute_reference(Run& run, Screen& screen, const ReferenceFile* file) {
  Engine& engine = run.engine();
  BuiltData& data = run.data;
  Objective& objective = *run.objective.objective;
  const Pass pass = run.pass();
  ReferenceLogps r;
  const auto compute = [&](const Batcher* part) {
    if (!part) return std::vector<double>();
    Working working(screen, "computing the reference", "batches");
    return logps_of(pass, engine.grid.zero(), objective, *part,
                    [&](std::int64_t done, std::int64_t of) { working(done, of); });
  };
  if (!take_from_file(pass, *engine.comm, file, data, r, screen)) {
    r = {compute(data.train.get()), compute(data.eval.get())};
    together(*engine.comm, "keep the reference", [&] {
      if (file) file->write(r);
    });
  }
  if (data.train) data.train->set_reference(std::move(r.train));
  if (data.eval) data.eval->set_reference(std::move(r.eval));
  objective.reference_is_known();
}

}  // namespace ft
