#include "app/begin/savings.h"

#include <algorithm>

#include "app/assembly/engine.h"
#include "app/plan/fitting.h"
#include "app/plan/planned.h"
#include "app/screen/format.h"
#include "engine/core/error.h"

namespace ft {
namespace {

constexpr const char* kFourBits = "quantization.load_in_4bit=true";
constexpr const char* kRows = "training.per_device_train_batch_size";

// Returns the savings to try, the cheapest first, for a run that would take `rows` at a time.
std::vector<Thrift> savings(std::int64_t rows, bool several_ranks) {
  std::vector<Thrift> all;
  for (const int stage : {0, 2, 3})
    for (const bool bf16 : {false, true})
      for (std::int64_t n = rows; n >= 1; n /= 2)
        if (several_ranks || stage == 0) all.push_back({.most_rows = n, .bf16 = bf16, .zero_stage = stage});
  return all;
}

std::int64_t chosen_rows(const std::vector<Decision>& decisions) {
  const auto rows =
      std::find_if(decisions.begin(), decisions.end(), [](const Decision& d) { return d.key == kRows; });
  return rows == decisions.end() ? 1 : rows->value.get<std::int64_t>();
}

bool same(const std::vector<Decision>& a, const std::vector<Decision>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Decision& x, const Decision& y) {
    return x.key == y.key && x.value == y.value;
  });
}

[[noreturn]] void refuse(const RunConfig& config, Room room, std::int64_t total) {
  const std::vector<Fit> ways = fits(config, nullptr, room, longest_that_fits(config, room));
  std::string text = str("with the smallest settings that can be chosen this run needs ", show::memory(total),
                         " and there are ", show::memory(room.there), "\n", fits_text(ways));
  if (text.find(kFourBits) != text.npos) text += str("--qlora means ", kFourBits, "\n");
  if (!ways.empty()) text += "Add settings to the command, or choose a smaller model\n";
  text.pop_back();
  throw UserError(Exit::memory, text);
}

}  // namespace

RunConfig on_ranks(RunConfig config, int ranks) {
  if (ranks > 0) config.distributed.nproc_per_node = ranks;
  return config;
}

std::vector<Decision> fewest_savings(const Decide& decide, bool several_ranks,
                                     const std::function<bool(const std::vector<Decision>&)>& fits) {
  std::vector<Decision> decisions = decide({});
  bool fit = fits(decisions);
  for (const Thrift& thrift : savings(chosen_rows(decisions), several_ranks)) {
    if (fit) break;
    std::vector<Decision> others = decide(thrift);
    if (same(others, decisions)) continue;
    decisions = std::move(others);
    fit = fits(decisions);
  }
  return decisions;
}

std::vector<Decision> fit_decisions(const Decide& decide, bool several_ranks,
                                    const std::function<RunConfig(const std::vector<Decision>&)>& settings) {
  std::optional<Room> room;
  std::int64_t total = 0;
  const auto fits = [&](const std::vector<Decision>& decisions) {
    const RunConfig config = settings(decisions);
    if (!room) room = room_of(config);
    total = planned(config, nullptr, *room).plan.memory.total;
    return room->there == 0 || total <= room->there - left_free(device_of(config), room->there);
  };
  std::vector<Decision> decisions = fewest_savings(decide, several_ranks, fits);
  if (room->there > 0 && total > room->there) refuse(settings(decisions), *room, total);
  return decisions;
}

}  // namespace ft
