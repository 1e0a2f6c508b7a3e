// The schedules of all stages together: every pass comes after the passes that it needs; no deadlock occurs
// even if a message is sent only when both sides are ready; and waiting times follow the formula.
#include "engine/train/stage_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "engine/core/error.h"

namespace ft {
namespace {

using Key = std::tuple<std::int64_t, int, bool>;  // micro-batch, stage among all, backward

// An end of a message; the other end is on another rank.
struct Half {
  Key what;
  double since = 0;
  bool met = false;
};

class Together {
 public:
  explicit Together(const PipelineShape& shape) : shape_(shape) {
    for (int s = 0; s < shape.stages; ++s) ranks_.push_back({.turns = stage_schedule(shape, s)});
  }
  // Returns true if all ranks finish their schedules.
  bool run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int s = 0; s < shape_.stages; ++s)
        while (advance(s)) moved = true;
    }
    return std::ranges::all_of(ranks_, [](const Rank& r) { return r.at == r.turns.size(); });
  }
  double ends() const {
    double last = 0;
    for (const Rank& r : ranks_) last = std::max(last, r.time);
    return last;
  }
  std::set<Key> computed;
  static constexpr double kForward = 1, kBackward = 2.5;

 private:
  struct Rank {
    std::vector<StageTurn> turns;
    std::size_t at = 0;
    bool waits = false;
    double time = 0;
    std::vector<std::shared_ptr<Half>> halves;
    std::map<std::size_t, Key> slots;
    std::set<Key> here;  // passes whose inputs have been received
  };
  int number(int s, const StagePass& p) const { return p.chunk * shape_.stages + s; }
  Key key(int s, const StagePass& p) const { return {p.micro_batch, number(s, p), p.backward}; }
  int last() const { return shape_.stages * shape_.chunks - 1; }

  bool advance(int s) {
    Rank& r = ranks_[static_cast<std::size_t>(s)];
    if (r.at == r.turns.size()) return false;
    const StageTurn& turn = r.turns[r.at];
    const bool begins = !r.waits;
    if (begins) begin(s, r, turn);
    if (!std::ranges::all_of(r.halves, [](const auto& h) { return h->met; })) return begins;
    for (const auto& h : r.halves) r.time = std::max(r.time, h->since);
    if (turn.receives) r.here.insert(key(s, turn.receives));
    r.halves.clear();
    r.waits = false;
    ++r.at;
    return true;
  }
  void begin(int s, Rank& r, const StageTurn& turn) {
    r.waits = true;
    if (turn.computes) compute(s, r, turn.computes);
    if (turn.sends) {
      EXPECT_TRUE(computed.contains(key(s, turn.sends)));
      const int from = number(s, turn.sends), to = from + (turn.sends.backward ? -1 : 1);
      if (0 <= to && to <= last())
        half(r, sent_, received_, {s, to % shape_.stages}, {turn.sends.micro_batch, to, turn.sends.backward});
    }
    if (!turn.receives) return;
    const int to = number(s, turn.receives), from = to + (turn.receives.backward ? 1 : -1);
    if (0 <= from && from <= last())
      half(r, received_, sent_, {from % shape_.stages, s}, key(s, turn.receives));
    if (!turn.receives.backward) {
      EXPECT_LT(turn.receives.slot, static_cast<std::size_t>(in_flight(shape_, s)));
      EXPECT_TRUE(r.slots.emplace(turn.receives.slot, key(s, turn.receives)).second) << "is in use";
    }
  }
  void compute(int s, Rank& r, const StagePass& p) {
    EXPECT_TRUE(r.here.contains(key(s, p))) << "what it needs has not come";
    EXPECT_TRUE(computed.insert(key(s, p)).second) << "twice";
    EXPECT_EQ(r.slots.at(p.slot), Key(p.micro_batch, number(s, p), false));
    if (p.backward) {
      EXPECT_TRUE(computed.contains({p.micro_batch, number(s, p), false}));
      EXPECT_TRUE(p.micro_batch == 0 || computed.contains({p.micro_batch - 1, number(s, p), true}))
          << "gradients are added up in another order";
      r.slots.erase(p.slot);
    }
    r.time += p.backward ? kBackward : kForward;
  }
  using Halves = std::map<std::pair<int, int>, std::deque<std::shared_ptr<Half>>>;
  static void half(Rank& r, Halves& own, Halves& others, std::pair<int, int> line, const Key& what) {
    const auto mine = r.halves.emplace_back(std::make_shared<Half>(Half{what, r.time}));
    if (others[line].empty()) return own[line].push_back(mine);
    const auto other = others[line].front();
    others[line].pop_front();
    EXPECT_EQ(mine->what, other->what) << "what is received is not what is sent";
    mine->since = other->since = std::max(mine->since, other->since);
    mine->met = other->met = true;
  }

  const PipelineShape shape_;
  std::vector<Rank> ranks_;
  Halves sent_, received_;
};

void expect_formula(const PipelineShape& shape) {
  SCOPED_TRACE(str(shape.stages, " stages, ", shape.chunks, " chunks, ", shape.micro_batches));
  Together all(shape);
  ASSERT_TRUE(all.run()) << "ranks wait for each other";
  const std::int64_t passes = shape.micro_batches * shape.chunks;
  EXPECT_EQ(std::ssize(all.computed), 2 * passes * shape.stages);
  const double busy = static_cast<double>(passes) * (Together::kForward + Together::kBackward);
  EXPECT_NEAR(1 - busy / all.ends(), bubble(shape), 1e-9);
}

TEST(StageSchedule, WaitsAsLongAsTheFormulaSays) {
  for (int stages = 2; stages <= 8; ++stages) {
    for (std::int64_t m = 1; m <= 3 * stages; ++m) expect_formula({stages, 1, m});
    for (int chunks = 2; chunks <= 5; ++chunks)
      for (std::int64_t m = stages; m <= 4 * stages; m += stages) expect_formula({stages, chunks, m});
  }
}

std::string text_of(const PipelineShape& shape, int stage) {
  std::string text;
  const auto add = [&](const char* verb, const StagePass& p) {
    if (!p) return;
    text += str(text.empty() ? "" : " ", verb, p.backward ? "B" : "F", p.micro_batch);
    if (shape.chunks > 1) text += static_cast<char>('a' + p.chunk);
  };
  for (const StageTurn& turn : stage_schedule(shape, stage)) {
    add("", turn.computes);
    add(">", turn.sends);
    add("<", turn.receives);
  }
  return text;
}

TEST(StageSchedule, IsOneForwardOneBackwardWhereThereIsOneChunk) {
  EXPECT_EQ(text_of({3, 1, 3}, 0), "<F0 F0 >F0 <F1 F1 >F1 <F2 F2 >F2 <B0 B0 >B0 <B1 B1 >B1 <B2 B2 >B2");
  EXPECT_EQ(text_of({3, 1, 3}, 1), "<F0 F0 >F0 <F1 F1 >F1 <B0 B0 >B0 <F2 F2 >F2 <B1 B1 >B1 <B2 B2 >B2");
  EXPECT_EQ(text_of({3, 1, 2}, 2), "<F0 F0 >F0 <B0 B0 >B0 <F1 F1 >F1 <B1 B1 >B1");
  EXPECT_EQ(text_of({4, 1, 1}, 0), "<F0 F0 >F0 <B0 B0 >B0");
}

TEST(StageSchedule, TakesTheChunksInTurnWhereThereAreSeveral) {
  EXPECT_EQ(text_of({2, 2, 2}, 1),
            "<F0a F0a >F0a <F1a F1a <B0b >F1a <F0b F0b B0b >B0b <B1b >F0b <F1b F1b B1b >B1b <B0a >F1b "
            "B0a >B0a <B1a B1a >B1a");
}

TEST(StageSchedule, HasTheFormulasMicroBatchesInFlightAndBubble) {
  EXPECT_EQ(in_flight({4, 1, 9}, 0), 4);
  EXPECT_EQ(in_flight({4, 1, 2}, 0), 2);
  EXPECT_EQ(in_flight({4, 2, 8}, 0), 11);
  EXPECT_EQ(in_flight({4, 2, 8}, 3), 5);
  EXPECT_EQ(in_flight({4, 2, 4}, 0), 8);
  EXPECT_DOUBLE_EQ(bubble({4, 1, 8}), 3. / 11);
  EXPECT_DOUBLE_EQ(bubble({4, 2, 8}), 3. / 19);
}

// A plan may have one micro-batch only, to plan its memory.
TEST(StageSchedule, PlansAMicroBatchByItself) {
  EXPECT_EQ(text_of({2, 3, 1}, 1),
            "<F0a F0a >F0a <F0b F0b >F0b <F0c F0c >F0c <B0c B0c >B0c <B0b B0b >B0b <B0a B0a >B0a");
}

}  // namespace
}  // namespace ft
