#include "engine/parallel/stage.h"

#include <algorithm>
#include <limits>

#include "engine/core/error.h"
#include "engine/ops/ops.h"

namespace ft {
namespace {

// View of a tensor's memory, gaps between its rows included.
Tensor whole(const Tensor& t) { return t ? Tensor(t.data, t.dtype, {t.rows() * t.stride}) : Tensor{}; }

}  // namespace

int rank_above(const Communicator& pipeline) { return (pipeline.rank() + 1) % pipeline.size(); }
int rank_below(const Communicator& pipeline) {
  return (pipeline.rank() + pipeline.size() - 1) % pipeline.size();
}

void exchange_states(Ctx& c, States out, int to, States in, int from, std::string_view of, bool out_first) {
  for (States* s : {&out, &in}) std::erase_if(*s, [](const Tensor& t) { return !t; });
  const std::size_t first = (out_first ? out : in).size(), later = first > 0 ? first - 1 : 0;
  const std::size_t goes_from = out_first ? 0 : later, comes_from = out_first ? later : 0,
                    end = std::max(goes_from + out.size(), comes_from + in.size());
  const auto at = [](const States& s, std::size_t i, std::size_t from_call) {
    return from_call <= i && i - from_call < s.size() ? whole(s[i - from_call]) : Tensor{};
  };
  for (std::size_t i = 0; i < end; ++i)
    during(c.ops.phases(), Phase::reduce, [&] {
      c.pipeline()->enter(of);
      c.pipeline()->send_receive(at(out, i, goes_from), to, at(in, i, comes_from), from);
    });
}

std::vector<Stage> deal_blocks(const std::vector<double>& blocks, EndCosts ends, int stages) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const auto S = static_cast<std::size_t>(stages);
  require(S > 0 && S <= blocks.size(), "more stages than blocks");
  // best[s][end]: the smallest cost of the most expensive stage if stages 0 to s have blocks [0, end), and
  // the block where s then begins. Among equal splits the last stages get the most blocks: they have the
  // fewest micro-batches in flight.
  struct Best {
    double most = kNever;
    std::size_t begin = 0;
  };
  std::vector<std::vector<Best>> best(S, std::vector<Best>(blocks.size() + 1));
  for (std::size_t s = 0; s < S; ++s)
    for (std::size_t end = s + 1; end <= blocks.size(); ++end) {
      double cost = (s == 0 ? ends.embedding : 0) + (s + 1 == S ? ends.head : 0);
      for (std::size_t begin = end; begin-- > s;) {
        cost += blocks[begin];
        const double before = s > 0 ? best[s - 1][begin].most : begin == 0 ? 0 : kNever;
        if (const double most = std::max(before, cost); most <= best[s][end].most)
          best[s][end] = {most, begin};
      }
    }
  std::vector<Stage> all(S);
  std::size_t end = blocks.size();
  for (std::size_t s = S; s-- > 0;) {
    const std::size_t begin = best[s][end].begin;
    all[s] = {static_cast<int>(s), stages, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end)};
    end = begin;
  }
  return all;
}

}  // namespace ft
