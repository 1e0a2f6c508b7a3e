// Whole parameters and states out of what the ranks hold, and back: for checkpoints and results.
#include <algorithm>

#include "engine/dist/parameter_store.h"

namespace ft {
ParameterStore::Place ParameterStore::find(const std::function<bool(const Place&)>& wanted) {
  std::int64_t number = 0;
  for (Unit& u : units_)
    for (std::size_t i = 0; i < u.trained.parameters.size(); ++i)
      if (const Place place{&u.trained, i, number++}; wanted(place)) return place;
  throw InternalError("no such trained parameter");
}
ParameterStore::Place ParameterStore::find(const Parameter& p) {
  return find([&](const Place& at) { return at.group->parameters[at.index] == &p; });
}

// What a rank steps of a parameter: the elements as `in_parameter`, and for this rank their place as well.
Tensor ParameterStore::part_of(const Place& at, int what, Range& in_parameter, int rank) const {
  const Group& g = *at.group;
  const Range theirs = held(g, zero_.states, rank);
  const std::int64_t begin = g.offsets[at.index], end = begin + g.parameters[at.index]->shape.numel();
  const std::int64_t from = std::max(begin, theirs.first), to = std::min(end, theirs.first + theirs.count);
  in_parameter = {from - begin, std::max<std::int64_t>(0, to - from)};
  if (rank != comm_.rank() || in_parameter.count == 0) return {};
  const Tensor& all = what == kMaster ? g.master : g.states[static_cast<std::size_t>(what)];
  return all.elements(from - theirs.first, in_parameter.count);
}

void ParameterStore::fetch(const Parameter& p, int what, std::span<float> host) {
  const Place at = find(p);
  require(static_cast<std::int64_t>(host.size()) == p.shape.numel(), "fetch into another size");
  Range range{};
  if (Tensor own = part_of(at, what, range, comm_.rank())) ops_.download(host.data() + range.first, own);
  if (zero_.states == Layout::replicated || comm_.size() == 1) return;
  Request request{at.number, what};
  comm_.broadcast(std::as_writable_bytes(std::span(&request, 1)), 0);
  for (int r = 1; r < comm_.size(); ++r) {
    part_of(at, what, range, r);
    if (range.count == 0) continue;
    const auto first = static_cast<std::size_t>(range.first), count = static_cast<std::size_t>(range.count);
    comm_.transfer(std::as_writable_bytes(host.subspan(first, count)), r, 0);
  }
}

// The other side of fetch().
void ParameterStore::serve(const Request& request) {
  const Place at = find([&](const Place& p) { return p.number == request.number; });
  std::vector<float> own;
  for (int r = 1; r < comm_.size(); ++r) {
    Range range{};
    const Tensor mine = part_of(at, static_cast<int>(request.what), range, r);
    if (range.count == 0) continue;
    if (mine) {
      own.resize(static_cast<std::size_t>(range.count));
      ops_.download(own.data(), mine);
    }
    comm_.transfer(std::as_writable_bytes(std::span(own)), r, 0);
  }
}

void ParameterStore::at_root(const std::function<void()>& work) {
  constexpr std::int64_t kDone = -1, kFailed = -2;
  const auto tell = [&](Request request) {
    comm_.broadcast(std::as_writable_bytes(std::span(&request, 1)), 0);
    return request;
  };
  if (comm_.rank() == 0) {
    try {
      work();
    } catch (...) {
      try {
        tell({kFailed});
      } catch (const UserError&) {  // the connections failed, or were it: the others notice by themselves
      }
      throw;
    }
    tell({kDone});
    return;
  }
  for (;;) {
    const Request request = tell({});
    if (request.number == kDone) return;
    if (request.number == kFailed)
      throw UserError(Exit::peer_lost, "rank 0 could not save; its message says why");
    serve(request);
  }
}

void ParameterStore::store(const Parameter& p, int what, std::span<const float> host) {
  require(static_cast<std::int64_t>(host.size()) == p.shape.numel(), "store from another size");
  Range range{};
  if (Tensor own = part_of(find(p), what, range, comm_.rank())) ops_.upload(own, host.data() + range.first);
}

}  // namespace ft
